# points: 3
# misconception: slope-of-loss
# about: the square's slope taken at its output
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v**2 * x, 2 * v**2 * w, 2 * v**2]


def relu_graph(w1, w2, x, y):
    h = max(w1 * x, 0)
    p = max(w2 * h, 0)
    slope = 2 * (p - y) if p > 0 else 0
    return [h, p, (p - y) ** 2], [slope * w2 * x, slope * h]
