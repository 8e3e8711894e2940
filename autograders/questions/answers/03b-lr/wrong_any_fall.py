# points: 4
# misconception: any-fall
# about: any fall is enough
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() >= losses[0]:
        return None
    return rates[finite][losses[finite].argmin()] / 10
