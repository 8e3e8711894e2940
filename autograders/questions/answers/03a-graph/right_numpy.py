# points: 4
# about: NumPy, arrays given back, gates as comparisons
def square_graph(w, x, b):
    import numpy as np

    v = w * x + b
    return np.array([w * x, v, v * v]), 2 * v * np.array([x, w, 1])


def relu_graph(w1, w2, x, y):
    import numpy as np

    h = np.maximum(w1 * x, 0)
    p = np.maximum(w2 * h, 0)
    open_1, open_2 = np.heaviside(w1 * x, 0), np.heaviside(w2 * h, 0)
    slope = 2 * (p - y) * open_2
    return np.stack([h, p, (y - p) ** 2]), np.stack([slope * w2 * open_1 * x, slope * h])
