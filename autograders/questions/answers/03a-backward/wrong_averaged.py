# points: 2
# misconception: averaged
# about: means over the batch
def relu_rule(x, gradient):
    return np.where(x > 0, gradient, 0.0)


def linear_rule(x, weight, bias, gradient):
    return gradient @ weight.T, x.T @ gradient / len(x), gradient.mean(axis=0)
