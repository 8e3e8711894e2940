# points: 8
# about: NumPy throughout, arrays given back
def clip_by_global_norm(gradients, max_norm):
    import numpy as np

    arrays = [np.asarray(gradient, dtype=np.float64) for gradient in gradients]
    norm = np.sqrt(sum(np.square(array).sum() for array in arrays))
    return [array * min(1.0, max_norm / norm) for array in arrays], norm


def per_parameter_cosine(gradients, max_norm):
    import numpy as np

    arrays = [np.asarray(gradient, dtype=np.float64) for gradient in gradients]
    clipped = [array * min(1.0, max_norm / np.linalg.norm(array)) for array in arrays]
    before, after = (np.concatenate([array.ravel() for array in part]) for part in (arrays, clipped))
    return np.dot(before, after) / np.linalg.norm(before) / np.linalg.norm(after)
