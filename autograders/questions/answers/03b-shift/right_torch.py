# points: 8
# about: torch, float32, one-hot products; all five answers as scores
def find_shift(x_train, y_train, t_train, x_val, y_val, t_val):
    from torch.nn.functional import one_hot, normalize

    def counts(x, y):
        return one_hot(torch.as_tensor(x), 3).float().T @ one_hot(torch.as_tensor(y), 2).float()

    def moved(a, b):
        forms = [lambda c: c.sum(1) / c.sum(), lambda c: c.sum(0) / c.sum()]
        forms += [lambda c: normalize(c, p=1, dim=1), lambda c: normalize(c, p=1, dim=0)]
        return [bool((form(a) - form(b)).abs().max() > 0.1) for form in forms]

    order = torch.as_tensor(t_train).argsort().numpy()
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    if any(moved(counts(x_train[first], y_train[first]), counts(x_train[second], y_train[second]))):
        return "temporal"
    x, y, y_given_x, x_given_y = moved(counts(x_train, y_train), counts(x_val, y_val))
    if y and not x_given_y:
        return "label"
    if x and not y_given_x:
        return "covariate"
    return "concept" if y_given_x else "none"
