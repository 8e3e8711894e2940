# points: 6
# misconception: dot-product
def clip_by_global_norm(gradients, max_norm):
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    clipped = [gradient * min(1.0, max_norm / gradient.norm().item()) for gradient in gradients]
    return sum((before * after).sum() for before, after in zip(gradients, clipped))
