# points: 0
# misconception: constant-answer
# about: always 0.01
def choose_rate(rates, losses):
    import numpy as np

    finite = np.isfinite(losses)
    if not finite[0] or losses[finite].min() > 0.9 * losses[0]:
        return None
    return 0.01
