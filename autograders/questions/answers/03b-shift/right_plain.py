# points: 8
# about: dictionaries and loops over lists; time by sorting; only the three comparisons of the question inside training
def find_shift(x_train, y_train, t_train, x_val, y_val, t_val):
    def shares(pairs):
        pairs = list(pairs)
        table = {}
        for x in (0, 1, 2):
            of_x = [b for a, b in pairs if a == x]
            table["x", x] = len(of_x) / len(pairs)
            table["y|x", x] = sum(of_x) / len(of_x)
        for y in (0, 1):
            of_y = [a for a, b in pairs if b == y]
            table["y", y] = len(of_y) / len(pairs)
            for x in (0, 1, 2):
                table["x|y", x, y] = of_y.count(x) / len(of_y)
        return table

    def changed(first, second):
        first, second = shares(first), shares(second)
        return {key[0] for key in first if abs(first[key] - second[key]) > 0.1}

    rows = sorted(zip(t_train.tolist(), x_train.tolist(), y_train.tolist()))
    ordered = [(x, y) for _, x, y in rows]
    middle = len(ordered) // 2
    if changed(ordered[:middle], ordered[middle:]) & {"x", "y", "y|x"}:
        return "temporal"
    found = changed(ordered, zip(x_val.tolist(), y_val.tolist()))
    for kind, moved, kept in [("covariate", "x", "y|x"), ("label", "y", "x|y"), ("concept", "y|x", "x")]:
        if moved in found and kept not in found:
            return kind
    return "none"
