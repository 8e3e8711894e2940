# points: 8
# about: entry by entry in plain loops; the bias gets its gradient by adding up the rows
def relu_rule(x, gradient):
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        if x[place] > 0:
            out[place] = gradient[place]
    return out


def linear_rule(x, weight, bias, gradient):
    dx, dw, db = np.zeros(x.shape), np.zeros(weight.shape), np.zeros(bias.shape)
    for n in range(x.shape[0]):
        for o in range(weight.shape[1]):
            db[o] += gradient[n, o]
            for i in range(x.shape[1]):
                dx[n, i] += gradient[n, o] * weight[i, o]
                dw[i, o] += gradient[n, o] * x[n, i]
    return dx, dw, db
