"""What is refused, in words: the value, the limit and the next step. And operands made tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._values import copied

if TYPE_CHECKING:
    from .graph import Node
    from .tensor import Tensor

Array = np.ndarray

_BROADCAST = (
    "{operation}: shapes {shapes[0]} and {shapes[1]} do not broadcast: counted from the last, each pair of axes must "
    "have one length, or one of them length 1. Reshape or transpose one of them."
)
_REDUCTION = (
    "{operation}: shape {shapes[0]}, axis={axis}: {detail}. Name each of its {x.ndim} axes at most once, or None for "
    "all."
)
_EMPTY_REDUCTION = (
    "{operation}: shape {shapes[0]}, axis={axis}: there are no entries to reduce. Every reduced axis needs a length of "
    "at least 1: look at the slice or mask that left the tensor empty."
)
_NOTHING_TO_JOIN = "concatenate: got no tensors. Pass at least one, for example concatenate([x, y])."
# What NumPy's error means, by operation: `x` is the first array; the operation's options have their own names.
_OPERATIONS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "power"), _BROADCAST),
    **dict.fromkeys(("sum", "mean", "max", "log_softmax"), _REDUCTION),
    "matmul": (
        "matmul: shapes {shapes[0]} and {shapes[1]} do not fit: the last axis of the first and the last but one of the "
        "second must have one length, and other axes must broadcast. Transpose or reshape one of them."
    ),
    "reshape": (
        "reshape: {x.size} entries of shape {x.shape} do not fit {lengths}. The product of the lengths must stay; "
        "one of them may be -1."
    ),
    "transpose": "transpose: axes {axes} of shape {x.shape}: {detail}. Name each axis once, or none to reverse them.",
    "index": "index: {key} of shape {x.shape}: {detail}. Use integers, slices or a mask that fit.",
    "concatenate": ("concatenate: shapes {shapes} along axis {axis}: {detail}. All axes but that one must be equal."),
}


def explained(error: ValueError | IndexError, operation: str, arrays: Sequence[Array], options: dict) -> Exception:
    """NumPy's error in an operation, in our words."""
    if operation not in _OPERATIONS:
        return error
    kind = ValueError if isinstance(error, ValueError) else IndexError
    shapes = [array.shape for array in arrays]
    facts = {"operation": operation, "detail": error, "shapes": shapes, "x": arrays[0] if arrays else None}
    text = _OPERATIONS[operation]
    if not arrays:
        text = _NOTHING_TO_JOIN
    elif "zero-size" in str(error):  # only NumPy's words tell an empty axis from a wrong one
        text = _EMPTY_REDUCTION
    return kind(text.format(**facts, **options))


# Recording.


def operands(operation: str, inputs: Sequence[Any]) -> list[Tensor]:
    """All as tensors. A Python or NumPy number, a list, and an array of integers take the dtype of the first tensor."""
    tensors = [x for x in inputs if hasattr(x, "_array")]
    if not tensors:
        kinds = " and ".join(type(x).__name__ for x in inputs)
        raise TypeError(f"{operation}: got {kinds}. One must be a Tensor: Tensor(values).")
    return [x if hasattr(x, "_array") else _constant(operation, x, tensors[0]) for x in inputs]


def _constant(operation: str, value: Any, tensor: Tensor) -> Tensor:
    if isinstance(value, int | float | np.number | list | tuple):
        return type(tensor)(value, dtype=tensor.dtype)
    if isinstance(value, Array):
        return type(tensor)(value, dtype=tensor.dtype if value.dtype.kind in "iub" else None)
    raise TypeError(
        f"{operation}: a Tensor and a {type(value).__name__} do not go together. "
        "Use a Tensor, a number or a NumPy array."
    )


def different_dtypes(operation: str, source: np.dtype, value: np.dtype) -> TypeError:
    """The error when an input and the result of an operation differ in dtype."""
    return TypeError(
        f"{operation}: an input has dtype {source}, the result {value}; the tape wants one dtype, float64 or float32, "
        "for all. Make the tensors with the same one: Tensor(values, dtype=np.float32)."
    )


def linear_shapes(x: Array, weight: Array, bias: Array) -> None:
    """Refuse a batch, weight and bias that do not fit."""
    if not (x.ndim == 2 and bias.ndim == 1 and (x.shape[1], bias.shape[0]) == weight.shape):
        raise ValueError(
            f"linear: shapes {x.shape}, {weight.shape} and {bias.shape}; it wants [examples, inputs], "
            "[inputs, outputs] and [outputs]. Reshape the batch, or make the layer for its width."
        )


def class_labels(logits: Array, labels: ArrayLike | Tensor) -> Array:
    """A copy of the labels as integers, shape [examples], that fit the logits."""
    classes = np.array(labels)
    if classes.dtype.kind not in "iu":
        raise TypeError(
            f"cross_entropy: labels have dtype {classes.dtype}; it wants class indices, integers of shape "
            f"{logits.shape[:1]}. Call labels.astype(int), or labels.argmax(axis=1) for one-hot rows."
        )
    if logits.ndim != 2 or classes.shape != logits.shape[:1] or not classes.size:
        raise ValueError(
            f"cross_entropy: logits of shape {logits.shape} and labels of shape {classes.shape}; it wants "
            "[examples, classes] and [examples], with at least one example. Reshape them."
        )
    count = logits.shape[1]
    outside = classes.astype(np.uint64) >= count  # negative labels are huge as unsigned numbers
    if outside.any():
        first = int(np.argmax(outside))
        raise ValueError(
            f"cross_entropy: labels[{first}] is {classes[first]}; with {count} classes labels are 0 to {count - 1}. "
            "Renumber the classes, or give the model more outputs."
        )
    return classes


# Changing values.


def not_recording(tensor: Tensor, how: str, recording: bool) -> None:
    """Refuse to change a parameter while operations are recorded."""
    if tensor.requires_grad and tensor.is_leaf and recording:
        raise RuntimeError(
            f"{how} changes a leaf of shape {tensor.shape} that requires gradients while operations are recorded. "
            f"To update it, write `with no_grad(): {how}`; else compute a new tensor."
        )


def replacement(tensor: Tensor, array: Array, how: str) -> Exception:
    """The error when a result gets new values, or a leaf gets values of another shape or dtype."""
    if tensor._operation:
        return RuntimeError(
            f"{how} on the result of operation '{tensor._operation}': its value is part of the graph. "
            "Compute a new tensor, or change x.detach()."
        )
    return ValueError(
        f"{how}: the values have {_kind(array)}, the tensor {_kind(tensor._array)}. "
        "Pass the same shape and dtype, or make a new Tensor."
    )


def dtype_for(values: ArrayLike, dtype: np.dtype) -> np.dtype | None:
    """The dtype that values get beside a tensor of `dtype`: numbers and lists take it, arrays keep theirs."""
    return None if isinstance(values, Array | np.generic) else dtype


def without_history(tensor: Tensor) -> Array:
    """The values, unless the tensor requires gradients: as an array it would lose its history."""
    if tensor.requires_grad:
        raise TypeError(
            f"a Tensor of shape {tensor.shape} that requires gradients would lose its history as an array. "
            "Use x.data for its values, or operations of the tape (concatenate joins tensors)."
        )
    return tensor._array


# The backward pass.


def seed(root: Tensor, gradient: ArrayLike | None, create_graph: bool = False) -> Array:
    """d(loss)/d(root): the given one, checked, or 1 for a single number."""
    if create_graph:
        raise NotImplementedError(
            "backward(create_graph=True): the tape has no second derivatives, because its gradients are NumPy arrays "
            "without a history. Leave create_graph out; for a gradient of a gradient use "
            "torch.autograd.grad(loss, w, create_graph=True)."
        )
    if not root.requires_grad:
        raise RuntimeError(
            "backward() on a tensor that does not require gradients: nothing was recorded. "
            "Give a leaf requires_grad=True, and compute outside no_grad()."
        )
    if gradient is None:
        if root._array.size != 1:
            raise RuntimeError(
                f"backward() on shape {root.shape}: only a single number has an obvious gradient. Reduce it, for "
                f"example x.sum().backward(), or pass backward(gradient) of shape {root.shape}."
            )
        return np.array(1, root._array.dtype).reshape(root._array.shape)
    array = copied(gradient, dtype_for(gradient, root.dtype), requires_grad=False)
    if array.shape != root.shape or array.dtype != root.dtype:
        raise ValueError(
            f"backward(gradient): the gradient has {_kind(array)}, the tensor {_kind(root._array)}. "
            "Pass d(loss)/d(tensor) with the tensor's shape and dtype."
        )
    return array


def freed(node: Node) -> RuntimeError:
    """The error when the inputs of an operation are no longer known."""
    return RuntimeError(
        f"operation '{node._operation}' was freed by an earlier backward(). Call the earlier one with "
        "backward(retain_graph=True), or compute the result again."
    )


def changed(node: Node, source: Node) -> RuntimeError:
    """The error when an input of an operation has other values now."""
    return RuntimeError(
        f"operation '{node._operation}' used a value of shape {source._array.shape} that was changed in place "
        "afterwards (by an optimizer's step, x[...] = or x.data =). Call backward() before the change, or compute the "
        "result again after it."
    )


def gradient_of(source: Node, part: Array, result: Node) -> Array:
    """What a backward rule returned, unless it is not a gradient for its input."""
    if part.shape != source._array.shape or part.dtype != source._array.dtype:
        raise ValueError(
            f"the backward rule of operation '{result._operation}' gave {_kind(part)} for an input of "
            f"{_kind(source._array)}. A rule must return the input's dtype and shape, or what broadcasting made of it "
            f"for the result's shape {result._array.shape}."
        )
    return part


# Layers and optimizers.


def width(width: int) -> None:
    """Refuse anything but a positive number of inputs or outputs."""
    if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
        raise ValueError(
            f"Linear: a width of {width}; it wants positive integers, [examples, inputs] -> [examples, outputs]."
        )


def parameters(parameters: Sequence[object]) -> None:
    """Refuse an empty list of parameters, or one that has a parameter twice."""
    if not parameters or len(set(map(id, parameters))) < len(parameters):
        raise ValueError(
            f"an optimizer got {len(parameters)} parameters, none or one of them twice. Pass each once, for example "
            "list(model.parameters())."
        )


def no_parameter(parameter: object) -> TypeError:
    """The error when an optimizer gets anything but a leaf that requires gradients."""
    return TypeError(
        f"an optimizer got {parameter}; it wants leaves that require gradients. Make them with requires_grad=True and "
        "pass the tensors themselves, not results of operations."
    )


def learning_rate(rate: float) -> None:
    """Refuse a rate that is not positive and finite."""
    if not 0 < rate < np.inf:
        raise ValueError(f"learning_rate={rate}: it must be positive and finite, for example 0.1.")


def fraction(name: str, value: float) -> None:
    """Refuse a momentum or beta outside 0 to below 1."""
    if not 0 <= value < 1:
        raise ValueError(f"{name}={value}: it must be 0 or more and below 1, for example 0.9.")


def no_gradients() -> RuntimeError:
    """The error when an optimizer's step has nothing to do."""
    return RuntimeError(
        "optimizer.step(): no parameter has a gradient. Call loss.backward() first, and zero_grad() after the step."
    )


def _kind(array: Array) -> str:
    return f"shape {array.shape} and dtype {array.dtype}"
