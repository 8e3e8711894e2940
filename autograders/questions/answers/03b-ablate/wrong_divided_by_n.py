# points: 3
# misconception: root-forgotten
# about: divides by n
def ablate_one(run, base, change, seeds):
    if len(change) != 1 or any(name not in base or base[name] == value for name, value in change.items()):
        raise ValueError(f"change one setting, not {change}")
    before = np.array([run(base, seed) for seed in seeds])
    after = np.array([run({**base, **change}, seed) for seed in seeds])
    differences = after - before
    gain = differences.mean()
    half = 4.303 * differences.std(ddof=1) / len(differences)
    low, high = gain - half, gain + half
    verdict = "likely useful" if low > 0 else "worse" if high < 0 else "noise"
    return gain, low, high, verdict
