# points: 2
# misconception: sign-flipped
# about: losses minus constant
def subset_rung(losses, constant):
    gains = losses - constant
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * gains.std()
    return gains.mean(), gains.std(), holds
