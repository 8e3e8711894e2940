# points: 5
# misconception: gate-missing
# about: everything passes
def relu_rule(x, gradient):
    return gradient.copy()


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient, gradient.sum(axis=0)
