# points: 6
# about: tensors throughout, tensors given back
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * gains.std()
    return gains.mean(), gains.std(), holds
