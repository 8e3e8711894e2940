# points: 3
# misconception: half-at-the-kink
# about: central differences, which give the mean of two slopes at the kink
def square_graph(w, x, b):
    u = w * x
    v = u + b
    return [u, v, v**2], [2 * v * x, 2 * v * w, 2 * v]


def relu_graph(w1, w2, x, y):
    def loss(w1, w2):
        return (max(w2 * max(w1 * x, 0), 0) - y) ** 2

    step = 1e-6
    h = max(w1 * x, 0)
    towards_w1 = (loss(w1 + step, w2) - loss(w1 - step, w2)) / (2 * step)
    towards_w2 = (loss(w1, w2 + step) - loss(w1, w2 - step)) / (2 * step)
    return [h, max(w2 * h, 0), loss(w1, w2)], [towards_w1, towards_w2]
