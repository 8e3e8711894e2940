# points: 4
# about: edge by edge from the end to the start, plain numbers
def square_graph(w, x, b):
    values = [w * x]
    values.append(values[0] + b)
    values.append(values[1] ** 2)
    d_loss = 1.0
    d_v = d_loss * 2 * values[1]
    d_u, d_b = d_v, d_v
    d_w, d_x = d_u * x, d_u * w
    return values, (d_w, d_x, d_b)


def relu_graph(w1, w2, x, y):
    z1 = w1 * x
    h = max(z1, 0)
    z2 = w2 * h
    p = max(z2, 0)
    loss = (p - y) ** 2
    d_p = 2 * (p - y)
    d_z2 = d_p if z2 > 0 else 0
    d_w2, d_h = d_z2 * h, d_z2 * w2
    d_z1 = d_h if z1 > 0 else 0
    return [h, p, loss], [d_z1 * x, d_w2]
