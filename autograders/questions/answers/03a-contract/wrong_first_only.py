# points: 2
# misconception: first-problem-only
# about: returns at the first problem, so what stands further down is missed beside it
def check_batch(x, y):
    if x.ndim not in (2, 4):
        return {"x.shape"}
    if x.dtype not in (torch.float32, torch.bfloat16):
        return {"x.dtype"}
    if not ((x >= -10) & (x <= 10)).all():
        return {"x.range"}
    if y.ndim != 1 or len(y) != len(x):
        return {"y.shape"}
    if y.dtype != torch.long:
        return {"y.dtype"}
    return set()
