# points: 6
# about: one decade before the lowest loss, among the finite losses
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() > 0.9 * losses[0]:
        return None
    return rates[finite][losses[finite].argmin()] / 10
