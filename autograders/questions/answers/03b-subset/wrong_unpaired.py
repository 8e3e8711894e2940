# points: 2
# misconception: unpaired-spread
# about: the spread of the losses
def subset_rung(losses, constant):
    gains = constant - losses
    holds = len(gains) >= 3 and torch.isfinite(gains).all() and gains.mean() > 2 * losses.std()
    return gains.mean(), losses.std(), holds
