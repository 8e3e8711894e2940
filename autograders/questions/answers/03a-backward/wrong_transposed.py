# points: 4
# misconception: weight-transposed
# about: PyTorch's layout of the weight
def relu_rule(x, gradient):
    return np.where(x > 0, gradient, 0.0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, gradient.T @ x, gradient.sum(axis=0)
