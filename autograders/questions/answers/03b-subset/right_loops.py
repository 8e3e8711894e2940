# points: 6
# about: float32 and loops
def subset_rung(losses, constant):
    gains = (constant.float() - losses.float()).tolist()
    gain = sum(gains) / len(gains)
    variance = sum((g - gain) ** 2 for g in gains) / (len(gains) - 1)
    bad = [g for g in gains if g != g or abs(g) == float("inf")]
    return gain, variance**0.5, not bad and len(gains) >= 3 and gain > 2 * variance**0.5
