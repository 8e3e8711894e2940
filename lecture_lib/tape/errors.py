"""What the tape says when something is wrong: the value, the limit and the next step. A table of texts."""

from __future__ import annotations

import numpy as np


def kind(array: np.ndarray) -> str:
    """Shape and dtype in words."""
    return f"shape {array.shape} and dtype {array.dtype}"


# Making a tensor.
RAGGED = "ragged values: {detail} Rows of an array have one length: pad or cut them."
NO_NUMBERS = "a Tensor needs numbers: {detail}. Pass floats, nested lists of them or an array."
INTEGER_GRADIENT = (
    "a Tensor of dtype {dtype} cannot require gradients: they exist for float64 and float32. "
    "Write 2.0 for 2, or pass dtype=np.float64."
)
DTYPE = "a Tensor of dtype {dtype}: the tape computes in float64 and float32. Pass dtype=np.float64, or real numbers."

# Recording.
OPERANDS = "{operation}: got {x} and {y}. One must be a Tensor: Tensor(values)."
CONSTANT = "{operation}: a Tensor and a {kind} do not go together. Use a Tensor, a number or a NumPy array."
DTYPES = (
    "{operation}: an input has dtype {source}, the result {value}; the tape wants one dtype, float64 or float32, for "
    "all. Make the tensors with the same one: Tensor(values, dtype=np.float32)."
)
BROADCAST = (
    "{operation}: shapes {x} and {y} do not broadcast: counted from the last, each pair of axes must have one length, "
    "or one of them length 1. Reshape or transpose one of them."
)
MATMUL = (
    "{operation}: shapes {x} and {y} do not fit: the last axis of the first and the last but one of the second must "
    "have one length, and other axes must broadcast. Transpose or reshape one of them."
)
LINEAR = (
    "linear: shapes {x}, {weight} and {bias}; it wants [examples, inputs], [inputs, outputs] and [outputs]. "
    "Reshape the batch, or make the layer for its width."
)
REDUCTION = (
    "{operation}: shape {shape}, axis={axis}: {detail}. Name each of its {ndim} axes at most once, or None for all."
)
RESHAPE = (
    "reshape: {size} entries of shape {shape} do not fit {lengths}. The product of the lengths must stay; "
    "one of them may be -1."
)
TRANSPOSE = "transpose: axes {0} of shape {shape}: {detail}. Name each axis once, or none to reverse them."
INDEX = "index: {0} of shape {shape}: {detail}. Use integers, slices or a mask that fit."
CONCATENATE = "concatenate: shapes {shapes} along axis {1}: {detail}. All axes but that one must be equal."
LABEL_DTYPE = (
    "cross_entropy: labels have dtype {dtype}; it wants class indices, integers of shape {shape}. "
    "Call labels.astype(int), or labels.argmax(axis=1) for one-hot rows."
)
LABEL_SHAPE = (
    "cross_entropy: logits of shape {logits} and labels of shape {labels}; it wants [examples, classes] and "
    "[examples], with at least one example. Reshape them."
)
LABEL_RANGE = (
    "cross_entropy: labels[{position}] is {label}; with {classes} classes labels are 0 to {last}. "
    "Renumber the classes, or give the model more outputs."
)

# Changing values.
READ_ONLY = (
    "x.data is read-only: {reason} (shape {shape}), and a backward() would be silently wrong. "
    "Change a copy, x.data.copy(), or the tensor itself: with no_grad(): x -= step, or x[...] = values."
)
RESULT_CHANGED = (
    "{how} on the result of operation '{operation}': its value is part of the graph. "
    "Compute a new tensor, or change x.detach()."
)
REPLACEMENT = "{how}: the values have {got}, the tensor {wanted}. Pass the same shape and dtype, or make a new Tensor."
WHILE_RECORDING = (
    "{how} changes a leaf of shape {shape} that requires gradients while operations are recorded. "
    "To update it, write `with no_grad(): {how}`; else compute a new tensor."
)

# Going back.
NOT_RECORDED = (
    "backward() on a tensor that does not require gradients: nothing was recorded. Give a leaf requires_grad=True, "
    "and compute outside no_grad()."
)
NOT_SCALAR = (
    "backward() on shape {shape}: only a single number has an obvious gradient. Reduce it, for example "
    "x.sum().backward(), or pass backward(gradient) of shape {shape}."
)
SEED = (
    "backward(gradient): the gradient has {got}, the tensor {wanted}. "
    "Pass d(loss)/d(tensor) with the tensor's shape and dtype."
)
FREED = (
    "operation '{operation}' was freed by an earlier backward(). Call the earlier one with "
    "backward(retain_graph=True), or compute the result again."
)
CHANGED = (
    "operation '{operation}' used a value of shape {shape} that was changed in place afterwards (by an optimizer's "
    "step, x[...] = or x.data =). Call backward() before the change, or compute the result again after it."
)
RULE = (
    "the backward rule of operation '{operation}' gave {got} for an input of {wanted}. A rule must return the input's "
    "dtype and shape, or what broadcasting made of it for the result's shape {result}."
)

# Looking at one.
AS_ARRAY = (
    "a Tensor of shape {shape} that requires gradients would lose its history as an array. "
    "Use x.data for its values, or operations of the tape (concatenate joins tensors)."
)

# Layers and optimizers.
WIDTH = "Linear: a width of {width}; it wants positive integers, [examples, inputs] -> [examples, outputs]."
PARAMETERS = (
    "an optimizer got {count} parameters, none or one of them twice. Pass each once, for example "
    "list(model.parameters())."
)
PARAMETER = (
    "an optimizer got {parameter}; it wants leaves that require gradients. Make them with requires_grad=True and pass "
    "the tensors themselves, not results of operations."
)
LEARNING_RATE = "learning_rate={rate}: it must be positive and finite, for example 0.1."
FRACTION = "{name}={value}: it must be 0 or more and below 1, for example 0.9."
NO_GRADIENTS = (
    "optimizer.step(): no parameter has a gradient. Call loss.backward() first, and zero_grad() after the step."
)

# Checking gradients.
GRADCHECK_INPUT = (
    "gradcheck: input {position} is {got}; it wants float64 leaves that require gradients, for differences need their "
    "digits. Make it with Tensor(values, requires_grad=True)."
)
GRADCHECK_RANDOM = (
    "gradcheck: two calls of the function recorded different operations or values, so differences say nothing. "
    "Give it a generator with the same seed in each call."
)
GRADIENT = (
    "operation '{operation}' (number {place} of {count}): for its input {number} of shape {shape}, entry {entry}, the "
    "backward rule gives {compared.gradient:.6g}, central differences {compared.central:.6g}. "
    "Look at that rule's formula."
)
GRADIENT_OUTSIDE = (
    "input {position}, entry {entry}: the gradient is {compared.gradient:.6g}, central differences "
    "{compared.central:.6g}, yet each operation on its own is right. Something takes values past the tape: look for "
    ".data, detach(), no_grad() or NumPy on the way."
)
