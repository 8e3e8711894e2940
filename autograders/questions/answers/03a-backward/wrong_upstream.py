# points: 0
# misconception: upstream-missing
# about: local slopes only, as if the gradient that comes in were 1
def relu_rule(x, gradient):
    return (x > 0).astype(float)


def linear_rule(x, weight, bias, gradient):
    ones = np.ones((x.shape[0], weight.shape[1]))
    return ones @ weight.T, x.T @ ones, ones.sum(axis=0)
