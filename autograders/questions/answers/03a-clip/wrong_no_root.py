# points: 4
# misconception: squared-norm
# about: the root of the sum of squares is forgotten where it is returned and divided by
def clip_by_global_norm(gradients, max_norm):
    norm = sum((gradient**2).sum() for gradient in gradients)
    scale = 1.0 if norm.sqrt() <= max_norm else max_norm / norm
    return [gradient * scale for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    clipped = [gradient * min(1.0, max_norm / gradient.norm().item()) for gradient in gradients]
    before = torch.cat([gradient.flatten() for gradient in gradients])
    after = torch.cat([gradient.flatten() for gradient in clipped])
    return before @ after / (before.norm() * after.norm())
