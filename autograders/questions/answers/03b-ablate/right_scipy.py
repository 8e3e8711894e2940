# points: 6
# about: SciPy's interval, seed after seed, a copy of the configuration that is updated
def ablate_one(run, base, change, seeds):
    from scipy import stats

    changed = dict(base)
    changed.update(change)
    different = [name for name in changed if name not in base or changed[name] != base[name]]
    if len(different) != 1 or set(changed) != set(base) or len(change) > 1:
        raise ValueError("an ablation changes exactly one setting")
    differences = []
    for seed in seeds:
        differences.append(run(dict(changed), seed) - run(dict(base), seed))
    mean = sum(differences) / 3
    low, high = stats.t.interval(0.95, df=2, loc=mean, scale=stats.sem(differences))
    if low <= 0 <= high:
        return [mean, low, high, "noise"]
    return [mean, low, high, "likely useful" if mean > 0 else "worse"]
