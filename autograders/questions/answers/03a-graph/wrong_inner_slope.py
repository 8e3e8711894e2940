# points: 3
# misconception: inner-slope-missing
# about: the walk back stops at v
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v, 2 * v, 2 * v]


def relu_graph(w1, w2, x, y):
    h = max(w1 * x, 0)
    p = max(w2 * h, 0)
    slope = 2 * (p - y) if p > 0 else 0
    return [h, p, (p - y) ** 2], [slope * w2 * x, slope * h]
