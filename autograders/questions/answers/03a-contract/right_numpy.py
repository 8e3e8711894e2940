# points: 8
# about: NumPy in float64, dtypes by name, the keys of a dict
def check_batch(x, y):
    import numpy as np

    values = x.double().numpy()
    conditions = {
        "x.shape": np.ndim(values) == 4 or np.ndim(values) == 2,
        "x.dtype": str(x.dtype) in {"torch.float32", "torch.bfloat16"},
        "x.range": bool(np.isfinite(values).all()) and np.abs(values).max() <= 10,
        "y.shape": y.shape == x.shape[:1],
        "y.dtype": str(y.dtype) == "torch.int64",
    }
    return {name: False for name, holds in conditions.items() if not holds}.keys()
