# points: 5
# misconception: both-gates
# about: negative gradients are stopped too
def relu_rule(x, gradient):
    return np.where((x > 0) & (gradient > 0), gradient, 0.0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient, gradient.sum(axis=0)
