# points: 6
# about: NumPy, a list given back, a number for the verdict
def subset_rung(losses, constant):
    import numpy as np

    gains = np.subtract(constant.numpy(), losses.numpy())
    with np.errstate(invalid="ignore"):
        gain, spread = np.mean(gains), np.std(gains, ddof=1)
    return [gain, spread, int(gains.size > 2 and np.isfinite(gains).all() and gain > 2 * spread)]
