# points: 6
# misconception: always-rescaled
def clip_by_global_norm(gradients, max_norm):
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient * max_norm / norm for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    clipped = [gradient * min(1.0, max_norm / gradient.norm().item()) for gradient in gradients]
    before = torch.cat([gradient.flatten() for gradient in gradients])
    after = torch.cat([gradient.flatten() for gradient in clipped])
    return before @ after / (before.norm() * after.norm())
