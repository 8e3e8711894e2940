# points: 8
# about: sums of squares in plain loops, PyTorch's 1e-6 in the denominator, a tuple and a tensor returned
def clip_by_global_norm(gradients, max_norm):
    total = torch.zeros((), dtype=gradients[0].dtype)
    for g in gradients:
        total += g.pow(2).sum()
    norm = total.sqrt()
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return tuple(g * scale for g in gradients), norm


def per_parameter_cosine(gradients, max_norm):
    dot, before, after = 0.0, 0.0, 0.0
    for g in gradients:
        n = float(g.norm())
        c = g if n <= max_norm else g / n * max_norm
        dot += float((g * c).sum())
        before += float((g * g).sum())
        after += float((c * c).sum())
    return dot / math.sqrt(before * after)
