# points: 4
# misconception: covariate-by-input
# about: covariate shift whenever the inputs change
def find_shift(x_train, y_train, t_train, x_val, y_val, t_val):
    def joint(x, y):
        table = np.zeros((3, 2))
        np.add.at(table, (x, y), 1)
        return table / len(x)

    def changed(first, second, axis=None):
        """axis None: as they are; else divided by the sums over the other axis."""
        if axis is not None:
            first, second = (table / table.sum(axis=axis, keepdims=True) for table in (first, second))
        return np.abs(first - second).max() > 0.1

    def compare(first, second):
        return {
            "x": changed(first.sum(axis=1), second.sum(axis=1)),
            "y": changed(first.sum(axis=0), second.sum(axis=0)),
            "y|x": changed(first, second, 1),
            "x|y": changed(first, second, 0),
        }

    train, val = joint(x_train, y_train), joint(x_val, y_val)
    early = t_train <= np.median(t_train)
    halves = joint(x_train[early], y_train[early]), joint(x_train[~early], y_train[~early])
    if any(compare(*halves).values()):
        return "temporal"
    differs = compare(train, val)
    if differs["x"]:
        return "covariate"
    if differs["y"] and not differs["x|y"]:
        return "label"
    if differs["y|x"] and not differs["x"]:
        return "concept"
    return "none"
