# points: 4
# misconception: too-few-seeds
# about: two seeds are enough
def subset_rung(losses, constant):
    gains = constant - losses
    holds = torch.isfinite(gains).all() and gains.mean() > 2 * gains.std()
    return gains.mean(), gains.std(), holds
