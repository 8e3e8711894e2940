# points: 3
# misconception: passes-at-the-kink
# about: a gate at exactly 0 is open
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v * x, 2 * v * w, 2 * v]


def relu_graph(w1, w2, x, y):
    h = max(w1 * x, 0)
    p = max(w2 * h, 0)
    slope = 2 * (p - y) if w2 * h >= 0 else 0
    return [h, p, (p - y) ** 2], [slope * w2 * x if w1 * x >= 0 else 0, slope * h]
