# points: 5
# misconception: norm-after
# about: the norm is measured on the result, and the cosine on the global clipping
def clip_by_global_norm(gradients, max_norm):
    def length(tensors):
        return torch.cat([tensor.flatten() for tensor in tensors]).norm()

    scale = min(1.0, max_norm / length(gradients).item())
    clipped = [gradient * scale for gradient in gradients]
    return clipped, length(clipped)


def per_parameter_cosine(gradients, max_norm):
    clipped, _ = clip_by_global_norm(gradients, max_norm)
    before = torch.cat([gradient.flatten() for gradient in gradients])
    after = torch.cat([gradient.flatten() for gradient in clipped])
    return before @ after / (before.norm() * after.norm())
