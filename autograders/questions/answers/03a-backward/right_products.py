# points: 8
# about: the usual one-liners, a list given back
def relu_rule(x, gradient):
    return gradient * (x > 0)


def linear_rule(x, weight, bias, gradient):
    return [gradient @ weight.T, x.T @ gradient, gradient.sum(0)]
