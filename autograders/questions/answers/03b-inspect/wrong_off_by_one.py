# points: 6
# misconception: labels-off-by-one
# about: labels up to C allowed, and classes counted instead of compared
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    x, y = torch.cat([x_train, x_val]), torch.cat([y_train, y_val])
    if x.abs().max() > 10:
        problems.add("range")
    if not x.is_floating_point() or y.dtype != torch.int64:
        problems.add("dtype")
    if y.min() < 0 or y.max() > classes:
        problems.add("labels")
    if {tuple(row.tolist()) for row in x_train} & {tuple(row.tolist()) for row in x_val}:
        problems.add("duplicates")
    if len(y_train.unique()) != len(y_val.unique()):
        problems.add("class-stacked")
    return problems
