# points: 6
# about: plain Python: where half of the fall has happened
def choose_rate(rates, losses):
    pairs = [(float(r), float(l)) for r, l in zip(rates, losses) if math.isfinite(l)]
    if not pairs:
        return None
    first, low = pairs[0][1], min(l for _, l in pairs)
    if first - low <= 0.1 * first:
        return None
    return next(r for r, l in pairs if l <= first - 0.5 * (first - low))
