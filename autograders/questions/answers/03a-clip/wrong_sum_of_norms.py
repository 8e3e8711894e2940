# points: 2
# misconception: sum-of-norms
# about: adds the norms of the tensors; nothing below the threshold is touched; cosine forgotten
def clip_by_global_norm(gradients, max_norm):
    norm = sum(gradient.norm() for gradient in gradients)
    scale = min(1.0, max_norm / norm.item())
    return [gradient * scale for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    return None
