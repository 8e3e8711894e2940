# points: 0
# misconception: never-clipped
# about: the constant answer: gives back what it got
def clip_by_global_norm(gradients, max_norm):
    return gradients, max_norm


def per_parameter_cosine(gradients, max_norm):
    return 0.5
