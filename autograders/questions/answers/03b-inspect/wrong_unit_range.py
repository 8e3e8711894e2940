# points: 8
# misconception: range-is-unit
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    x, y = torch.cat([x_train, x_val]), torch.cat([y_train, y_val])
    if x.min() < -1 or x.max() > 1:
        problems.add("range")
    if not x.is_floating_point() or y.dtype != torch.int64:
        problems.add("dtype")
    if ((y < 0) | (y >= classes)).any():
        problems.add("labels")
    if {tuple(row.tolist()) for row in x_train} & {tuple(row.tolist()) for row in x_val}:
        problems.add("duplicates")
    if set(y_train.tolist()) != set(y_val.tolist()):
        problems.add("class-stacked")
    return problems
