# points: 2
# misconception: first-relu-left-out
# about: relu only around the whole product
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v * x, 2 * v * w, 2 * v]


def relu_graph(w1, w2, x, y):
    h = w1 * x
    p = max(w2 * h, 0)
    slope = 2 * (p - y) if p > 0 else 0
    return [h, p, (p - y) ** 2], [slope * w2 * x, slope * h]
