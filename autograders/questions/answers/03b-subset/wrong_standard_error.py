# points: 2
# misconception: divided-by-root-n
# about: standard error
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * (gains.std() / len(gains) ** 0.5)
    return gains.mean(), (gains.std() / len(gains) ** 0.5), holds
