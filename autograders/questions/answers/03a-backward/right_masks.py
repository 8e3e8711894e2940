# points: 8
# about: a copy with the closed gates set to zero; ones times the gradient for the bias; a generator given back
def relu_rule(x, gradient):
    result = gradient.copy()
    result[np.maximum(x, 0) == 0] = 0
    return result


def linear_rule(x, weight, bias, gradient):
    examples = gradient.shape[0]
    yield np.dot(gradient, np.transpose(weight))
    yield np.tensordot(x, gradient, axes=(0, 0))
    yield np.ones(examples) @ gradient
