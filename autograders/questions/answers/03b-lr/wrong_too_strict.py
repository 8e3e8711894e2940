# points: 0
# misconception: too-strict
# about: asks for a fall to a half
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() > 0.5 * losses[0]:
        return None
    return rates[finite][losses[finite].argmin()] / 10
