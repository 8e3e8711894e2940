# points: 4
# misconception: from-the-top
# about: compares the lowest loss with the highest
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() > 0.9 * losses[finite].max():
        return None
    return rates[finite][losses[finite].argmin()] / 10
