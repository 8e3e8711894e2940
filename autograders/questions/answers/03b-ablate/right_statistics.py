# points: 6
# about: the standard library
def ablate_one(run, base, change, seeds):
    from statistics import mean, stdev

    if not (set(change) <= set(base) and sum(base[key] != change[key] for key in change) == len(change) == 1):
        raise ValueError(f"{len(change)} settings change")
    by_seed = {seed: (run(base, seed), run({**base, **change}, seed)) for seed in seeds}
    gains = [after - before for before, after in by_seed.values()]
    needed = 4.303 * stdev(gains) / 3**0.5
    interval = (mean(gains) - needed, mean(gains) + needed)
    verdict = {(True, True): "likely useful", (False, False): "worse"}.get(tuple(end > 0 for end in interval), "noise")
    return mean(gains), *interval, verdict
