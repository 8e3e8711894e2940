# points: 0
# misconception: no-gradient
# about: the constant answer: zeros of the right shapes
def relu_rule(x, gradient):
    return np.zeros_like(x)


def linear_rule(x, weight, bias, gradient):
    return np.zeros_like(x), np.zeros_like(weight), np.zeros_like(bias)
