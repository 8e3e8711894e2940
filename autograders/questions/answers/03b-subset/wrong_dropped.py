# points: 4
# misconception: diverged-dropped
# about: leaves diverged runs out
def subset_rung(losses, constant):
    gains = (constant - losses)[torch.isfinite(losses)]
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * gains.std()
    return gains.mean(), gains.std(), holds
