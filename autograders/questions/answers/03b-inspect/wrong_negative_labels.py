# points: 8
# misconception: negative-labels
# about: only the upper end of the labels is looked at
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    x, y = torch.cat([x_train, x_val]), torch.cat([y_train, y_val])
    if x.abs().max() > 10:
        problems.add("range")
    if not x.is_floating_point() or y.dtype != torch.int64:
        problems.add("dtype")
    if (y >= classes).any():
        problems.add("labels")
    if {tuple(row) for row in x_train.tolist()} & {tuple(row) for row in x_val.tolist()}:
        problems.add("duplicates")
    if set(y_train.tolist()) != set(y_val.tolist()):
        problems.add("class-stacked")
    return problems
