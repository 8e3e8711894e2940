# points: 6
# misconception: training-only
# about: looks at the training part only, and compares rows position by position
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    if x_train.abs().max() > 10:
        problems.add("range")
    if not x_train.is_floating_point() or y_train.dtype != torch.int64:
        problems.add("dtype")
    if y_train.min() < 0 or y_train.max() >= classes:
        problems.add("labels")
    n = min(len(x_train), len(x_val))
    if (x_train[:n] == x_val[:n]).all(dim=1).any():
        problems.add("duplicates")
    if set(y_train.tolist()) != set(y_val.tolist()):
        problems.add("class-stacked")
    return problems
