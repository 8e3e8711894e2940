# points: 8
# about: a comparison with the maximum, which is NaN where an entry is; generator and frozen set
def check_batch(x, y):
    def problems():
        if x.dim() != 2 and x.dim() != 4:
            yield "x.shape"
        if not torch.is_floating_point(x) or x.dtype in {torch.float64, torch.float16}:
            yield "x.dtype"
        if not x.float().abs().max().item() <= 10.0:
            yield "x.range"
        if tuple(y.shape) != (x.size(0),):
            yield "y.shape"
        if y.dtype is not torch.int64:
            yield "y.dtype"

    return frozenset(problems())
