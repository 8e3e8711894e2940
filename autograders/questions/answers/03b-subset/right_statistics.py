# points: 6
# about: plain Python, an early answer for what cannot hold
def subset_rung(losses, constant):
    import statistics

    gains = [c - l for l, c in zip(losses.tolist(), constant.tolist())]
    if not all(map(math.isfinite, gains)):
        return None, None, False
    gain, spread = statistics.fmean(gains), statistics.stdev(gains)
    return gain, spread, len(gains) >= 3 and gain / spread > 2
