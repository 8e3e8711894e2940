# points: 8
# about: one long vector, torch.linalg
def clip_by_global_norm(gradients, max_norm):
    vector = torch.cat([gradient.reshape(-1) for gradient in gradients])
    norm = torch.linalg.vector_norm(vector).item()
    if norm <= max_norm:
        return [gradient.clone() for gradient in gradients], norm
    return [gradient * (max_norm / norm) for gradient in gradients], norm


def per_parameter_cosine(gradients, max_norm):
    clipped = [clip_by_global_norm([gradient], max_norm)[0][0] for gradient in gradients]
    before = torch.cat([gradient.reshape(-1) for gradient in gradients])
    after = torch.cat([gradient.reshape(-1) for gradient in clipped])
    return torch.nn.functional.cosine_similarity(before, after, dim=0)
