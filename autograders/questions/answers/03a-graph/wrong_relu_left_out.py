# points: 2
# misconception: relu-left-out
# about: two factors instead of two layers
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v * x, 2 * v * w, 2 * v]


def relu_graph(w1, w2, x, y):
    h = w1 * x
    p = w2 * h
    return [h, p, (p - y) ** 2], [2 * (p - y) * w2 * x, 2 * (p - y) * h]
