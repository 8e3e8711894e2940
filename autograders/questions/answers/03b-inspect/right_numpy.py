# points: 10
# about: NumPy, one function a condition, the keys of a dict
def inspect_data(x_train, y_train, x_val, y_val, classes):
    import numpy as np

    inputs, labels = [x_train.numpy(), x_val.numpy()], [y_train.numpy(), y_val.numpy()]
    conditions = {
        "range": lambda: any(np.abs(x).max() > 10 for x in inputs),
        "dtype": lambda: any(x.dtype.kind != "f" for x in inputs) or any(y.dtype != np.int64 for y in labels),
        "labels": lambda: not all(np.isin(y, np.arange(classes)).all() for y in labels),
        "duplicates": lambda: bool({x.tobytes() for x in inputs[0]} & {x.tobytes() for x in inputs[1]}),
        "class-stacked": lambda: np.setxor1d(*labels).size > 0,
    }
    return {name: True for name, holds in conditions.items() if holds()}.keys()
