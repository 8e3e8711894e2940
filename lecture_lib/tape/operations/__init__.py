"""The operations: functions of arrays that return a value and, for each array, the rule that takes the gradient back.

`tensor.apply` runs them on tensors and records them. A rule gets d(loss)/d(value) and returns d(loss)/d(array).

Values and gradients are PyTorch's. Two conventions where a derivative is not unique: that of relu at 0 is 0, and max
divides the gradient evenly among equal maxima (as torch.amax). NumPy's warnings, such as that of log(0), stay on.
"""
