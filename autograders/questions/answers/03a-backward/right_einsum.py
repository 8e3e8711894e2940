# points: 8
# about: named axes; heaviside with 0 at 0
def relu_rule(x, gradient):
    return np.heaviside(x, 0.0) * gradient


def linear_rule(x, weight, bias, gradient):
    dx = np.einsum("no,io->ni", gradient, weight)
    dweight = np.einsum("ni,no->io", x, gradient)
    return dx, dweight, np.add.reduce(gradient)
