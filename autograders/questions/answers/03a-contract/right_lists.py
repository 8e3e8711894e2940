# points: 8
# about: plain Python on lists; a list is returned; the number of labels is compared only where x's shape is right
def check_batch(x, y):
    found = []
    size = list(x.shape)
    if len(size) != 4 and len(size) != 2:
        found.append("x.shape")
    if x.dtype is not torch.float32 and x.dtype is not torch.bfloat16:
        found.append("x.dtype")
    if not all(-10 <= value <= 10 for value in x.flatten().tolist()):
        found.append("x.range")
    if len(y.shape) != 1 or ("x.shape" not in found and y.numel() != size[0]):
        found.append("y.shape")
    if y.type() != "torch.LongTensor":
        found.append("y.dtype")
    return found
