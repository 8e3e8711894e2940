# points: 3
# misconception: value-clipping
def clip_by_global_norm(gradients, max_norm):
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient.clamp(-max_norm, max_norm) for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    return 1.0
