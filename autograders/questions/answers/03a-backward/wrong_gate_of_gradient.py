# points: 5
# misconception: gate-of-the-gradient
# about: the forward function applied to the gradient
def relu_rule(x, gradient):
    return np.maximum(gradient, 0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient, gradient.sum(axis=0)
