# points: 2
# misconception: best-seed
# about: the best seed counts
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.max() > 2 * gains.std()
    return gains.max(), gains.std(), holds
