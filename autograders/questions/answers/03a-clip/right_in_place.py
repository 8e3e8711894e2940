# points: 8
# about: the tensors are scaled in place, and given back by a generator
def clip_by_global_norm(gradients, max_norm):
    norm = torch.stack([gradient.norm(2) for gradient in gradients]).norm(2)
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return (gradient for gradient in gradients), norm


def per_parameter_cosine(gradients, max_norm):
    before = torch.hstack([gradient.ravel() for gradient in gradients]).clone()
    for gradient in gradients:
        gradient.div_(max(1.0, gradient.norm().item() / max_norm))
    after = torch.hstack([gradient.ravel() for gradient in gradients])
    return (before * after).sum().item() / (before.norm() * after.norm()).item()
