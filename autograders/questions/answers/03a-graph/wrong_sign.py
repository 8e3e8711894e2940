# points: 3
# misconception: sign-turned
# about: the error counted from the target
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v * x, 2 * v * w, 2 * v]


def relu_graph(w1, w2, x, y):
    h = max(w1 * x, 0)
    p = max(w2 * h, 0)
    slope = 2 * (y - p) * (p > 0)
    return [h, p, (y - p) ** 2], [slope * w2 * x, slope * h]
