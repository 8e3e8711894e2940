# points: 7
# misconception: any-half
def check_batch(x, y):
    problems = set()
    if x.ndim not in (2, 4):
        problems.add("x.shape")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        problems.add("x.dtype")
    if not ((x >= -10) & (x <= 10)).all():
        problems.add("x.range")
    if y.ndim != 1 or len(y) != len(x):
        problems.add("y.shape")
    if y.dtype != torch.long:
        problems.add("y.dtype")
    return problems
