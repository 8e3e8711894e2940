# points: 4
# misconception: any-gain
# about: a positive mean is enough
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 0
    return gains.mean(), gains.std(), holds
