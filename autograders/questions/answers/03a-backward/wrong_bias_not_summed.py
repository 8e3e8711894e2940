# points: 6
# misconception: bias-not-summed
# about: the tape would sum it, the rule on its own does not
def relu_rule(x, gradient):
    return np.where(x > 0, gradient, 0.0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient, gradient
