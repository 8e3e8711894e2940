# points: 4
# misconception: always-answers
# about: never withholds
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite.any():
        return None
    return rates[finite][losses[finite].argmin()] / 10
