# points: 5
# misconception: passes-at-the-kink
# about: open at 0
def relu_rule(x, gradient):
    return gradient * (x >= 0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient, gradient.sum(axis=0)
