"""The operations. Each computes its value and gives `record`, for every input, the rule that takes the gradient back.

Values and gradients are PyTorch's. Two conventions where a derivative has no one value: relu passes nothing at 0, and
max shares the gradient evenly among equal maxima (as torch.amax). NumPy's warnings, such as that of log(0), stay on.
"""
