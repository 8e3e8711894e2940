# points: 6
# about: torch in float64; the quantile rounded to 4.3
def ablate_one(run, base, change, seeds):
    match list(change.items()):
        case [(name, new)] if name in base and base[name] != new:
            pass
        case _:
            raise ValueError("not one change")
    scores = [[run(config, seed) for seed in seeds] for config in (base, base | change)]
    table = torch.tensor(scores, dtype=torch.float64)
    difference = table[1] - table[0]
    gain = difference.mean()
    half = 4.3 * difference.std() / math.sqrt(3)
    names = {True: "likely useful", False: "worse"}
    verdict = "noise" if gain.abs() < half else names[bool(gain > 0)]
    return gain, gain - half, gain + half, verdict
