# points: 4
# misconception: two-neighbours
# about: the steepest fall between two neighbours
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() > 0.9 * losses[0]:
        return None
    return rates[finite][1 + np.diff(losses[finite]).argmin()]
