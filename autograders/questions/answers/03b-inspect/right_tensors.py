# points: 10
# about: torch throughout
def inspect_data(x_train, y_train, x_val, y_val, classes):
    problems = set()
    x, y = torch.cat([x_train, x_val]), torch.cat([y_train, y_val])
    if x.abs().max() > 10:
        problems.add("range")
    if not x.is_floating_point() or y.dtype != torch.long:
        problems.add("dtype")
    if y.min() < 0 or y.max() >= classes:
        problems.add("labels")
    if (x_train[:, None, :] == x_val[None, :, :]).all(dim=2).any():
        problems.add("duplicates")
    if not torch.equal(torch.unique(y_train), torch.unique(y_val)):
        problems.add("class-stacked")
    return problems
