# points: 10
# about: generators of names; pairwise distances for the duplicates; a frozen set
def inspect_data(x_train, y_train, x_val, y_val, classes):
    def problems():
        for x, y in [(x_train, y_train), (x_val, y_val)]:
            if ((x > 10) | (x < -10)).any():
                yield "range"
            if not torch.is_floating_point(x):
                yield "dtype"
            if y.dtype != torch.long:
                yield "dtype"
            if any(label not in range(classes) for label in y.tolist()):
                yield "labels"
        for row in x_val:
            if (x_train == row).all(dim=1).any():
                yield "duplicates"
        counts = [torch.bincount((y - min(y_train.min(), y_val.min())).long(), minlength=100) > 0 for y in (y_train, y_val)]
        if (counts[0] != counts[1]).any():
            yield "class-stacked"

    return frozenset(problems())
