# points: 5
# misconception: late-refusal
# about: looks at the change after the runs
def ablate_one(run, base, change, seeds):
    before = np.array([run(base, seed) for seed in seeds])
    after = np.array([run({**base, **change}, seed) for seed in seeds])
    if len(change) != 1 or any(name not in base or base[name] == value for name, value in change.items()):
        raise ValueError(f"change one setting, not {change}")
    differences = after - before
    gain = differences.mean()
    half = 4.303 * differences.std(ddof=1) / np.sqrt(len(differences))
    low, high = gain - half, gain + half
    return gain, low, high, "likely useful" if low > 0 else "worse" if high < 0 else "noise"
