# points: 2
# misconception: population-spread
# about: divides by n
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * gains.std(correction=0)
    return gains.mean(), gains.std(correction=0), holds
