# points: 10
# about: plain Python sets and loops
def inspect_data(x_train, y_train, x_val, y_val, classes):
    found = []
    for x, y in ((x_train, y_train), (x_val, y_val)):
        if float(x.min()) < -10 or float(x.max()) > 10:
            found.append("range")
        if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64) or y.dtype is not torch.int64:
            found.append("dtype")
        if not set(y.tolist()) <= set(range(classes)):
            found.append("labels")
    rows = {tuple(row) for row in x_train.tolist()}
    if any(tuple(row) in rows for row in x_val.tolist()):
        found.append("duplicates")
    if set(y_train.tolist()) ^ set(y_val.tolist()):
        found.append("class-stacked")
    return set(found)
