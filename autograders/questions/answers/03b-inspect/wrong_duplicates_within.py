# points: 8
# misconception: duplicates-within
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    x, y = torch.cat([x_train, x_val]), torch.cat([y_train, y_val])
    if x.abs().max() > 10:
        problems.add("range")
    if not torch.is_floating_point(x) or y.dtype != torch.int64:
        problems.add("dtype")
    if ((y < 0) | (y >= classes)).any():
        problems.add("labels")
    if len(torch.unique(x, dim=0)) < len(x):
        problems.add("duplicates")
    if set(y_train.tolist()) != set(y_val.tolist()):
        problems.add("class-stacked")
    return problems
