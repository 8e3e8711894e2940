# points: 4
# misconception: nan-blind
# about: min over everything, nan included
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or not losses.min() <= 0.9 * losses[0]:
        return None
    return rates[finite][losses[finite].argmin()] / 10
