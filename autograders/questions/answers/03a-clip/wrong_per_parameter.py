# points: 5
# misconception: per-parameter
def clip_by_global_norm(gradients, max_norm):
    norm = math.sqrt(sum(float(gradient.pow(2).sum()) for gradient in gradients))
    return [gradient * min(1.0, max_norm / float(gradient.norm())) for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    clipped, _ = clip_by_global_norm(gradients, max_norm)
    before = torch.cat([gradient.flatten() for gradient in gradients])
    after = torch.cat([gradient.flatten() for gradient in clipped])
    return before @ after / (before.norm() * after.norm())
