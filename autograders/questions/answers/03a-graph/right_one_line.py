# points: 4
# about: formulas written out, generators given back, the relu's slope from its value
def square_graph(w, x, b):
    v = w * x + b
    return [w * x, v, v ** 2], (2 * v * slope for slope in (x, w, 1))


def relu_graph(w1, w2, x, y):
    h = w1 * x * (w1 * x > 0)
    p = w2 * h * (w2 * h > 0)
    common = 2 * (p - y) * (p > 0)
    return (number for number in (h, p, (p - y) ** 2)), [common * w2 * x * (h > 0), common * h]
