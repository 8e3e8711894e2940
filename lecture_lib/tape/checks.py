"""What is refused, and operands made tensors. The texts are in `errors`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from . import errors
from .values import copied

if TYPE_CHECKING:
    from .graph import Inputs
    from .tensor import Axes, Operand, Tensor

Array = np.ndarray


def operands(operation: str, x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Both as tensors. A Python or NumPy number, and an array of integers, takes the other's dtype."""
    from .tensor import Tensor

    if not isinstance(x, Tensor):
        if not isinstance(y, Tensor):
            raise TypeError(errors.OPERANDS.format(operation=operation, x=type(x).__name__, y=type(y).__name__))
        return _constant(operation, x, y), y
    return x, y if isinstance(y, Tensor) else _constant(operation, y, x)


def _constant(operation: str, value: Any, other: Tensor) -> Tensor:
    if isinstance(value, int | float | np.number | list | tuple):
        return type(other)(value, dtype=other.dtype)
    if isinstance(value, Array):
        return type(other)(value, dtype=other.dtype if value.dtype.kind in "iub" else None)
    raise TypeError(errors.CONSTANT.format(operation=operation, kind=type(value).__name__))


def broadcast(operation: str, function: Callable[[Array, Array], Array], x: Tensor, y: Tensor) -> Array:
    """function(x, y), or the error that names both shapes."""
    try:
        return function(x._array, y._array)
    except ValueError:
        text = errors.MATMUL if function is np.matmul else errors.BROADCAST
        raise ValueError(text.format(operation=operation, x=x.shape, y=y.shape)) from None


def explained(text: str, function: Callable[..., Array], *arguments: Any, **facts: Any) -> Array:
    """function(*arguments), or NumPy's error in our words: `text` with the facts, the arguments and NumPy's detail."""
    try:
        return function(*arguments)
    except (ValueError, IndexError) as error:
        kind = ValueError if isinstance(error, ValueError) else IndexError
        raise kind(text.format(*arguments, detail=error, **facts)) from None


def reduced(operation: str, function: Callable[..., Array], x: Tensor, axis: Axes, keepdims: bool) -> Array:
    """function(x) over `axis`, or the error that names shape and axis."""
    compute = partial(function, axis=axis, keepdims=keepdims)
    return explained(errors.REDUCTION, compute, x._array, operation=operation, shape=x.shape, axis=axis, ndim=x.ndim)


def gradient_of(source: Tensor, share: Array, result: Tensor) -> Array:
    """What a backward rule gave, refused when it is no gradient for its input."""
    if share.shape != source.shape or share.dtype != source.dtype:
        got, wanted = errors.kind(share), errors.kind(source._array)
        raise ValueError(errors.RULE.format(operation=result._operation, got=got, wanted=wanted, result=result.shape))
    return share


def intact(tensor: Tensor) -> Inputs:
    """The inputs of the operation that made a tensor, unless they were freed or changed since."""
    if tensor._inputs is None:
        raise RuntimeError(errors.FREED.format(operation=tensor._operation))
    for source, _ in tensor._inputs:
        if source._number > tensor._number:
            raise RuntimeError(errors.CHANGED.format(operation=tensor._operation, shape=source.shape))
    return tensor._inputs


def not_recording(tensor: Tensor, how: str, recording: bool) -> None:
    """Refuse to change a parameter while operations are recorded."""
    if tensor.requires_grad and tensor.is_leaf and recording:
        raise RuntimeError(errors.WHILE_RECORDING.format(how=how, shape=tensor.shape))


def linear_shapes(x: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Refuse what is no batch of rows for the layer."""
    rows, columns = x._array.shape, bias._array.shape
    if not (len(rows) == 2 and len(columns) == 1 and (rows[1], columns[0]) == weight._array.shape):
        raise ValueError(errors.LINEAR.format(x=x.shape, weight=weight.shape, bias=bias.shape))


def class_labels(logits: Tensor, labels: ArrayLike | Tensor) -> Array:
    """A copy of the labels as integers, shape [examples], that fit the logits."""
    classes = np.array(labels)
    if classes.dtype.kind not in "iu":
        raise TypeError(errors.LABEL_DTYPE.format(dtype=classes.dtype, shape=logits.shape[:1]))
    if logits.ndim != 2 or classes.shape != logits.shape[:1] or not classes.size:
        raise ValueError(errors.LABEL_SHAPE.format(logits=logits.shape, labels=classes.shape))
    count = logits._array.shape[1]
    outside = classes.astype(np.uint64) >= count  # as unsigned numbers, negative ones are huge
    if outside.any():
        first = int(np.argmax(outside))
        raise ValueError(errors.LABEL_RANGE.format(position=first, label=classes[first], classes=count, last=count - 1))
    return classes


def dtype_for(values: ArrayLike, dtype: np.dtype) -> np.dtype | None:
    """The dtype that values get beside a tensor of `dtype`: numbers and lists take it, arrays keep theirs."""
    return None if isinstance(values, Array | np.generic) else dtype


def without_history(tensor: Tensor) -> Array:
    """The values, unless gradients flow to the tensor: as an array it would lose them."""
    if tensor.requires_grad:
        raise TypeError(errors.AS_ARRAY.format(shape=tensor.shape))
    return tensor._array


def replacement(tensor: Tensor, array: Array, how: str) -> None:
    """Refuse new values for a result, and those of another shape or dtype."""
    if tensor._operation:
        raise RuntimeError(errors.RESULT_CHANGED.format(how=how, operation=tensor._operation))
    if array.shape != tensor._array.shape or array.dtype != tensor._array.dtype:
        got, wanted = errors.kind(array), errors.kind(tensor._array)
        raise ValueError(errors.REPLACEMENT.format(how=how, got=got, wanted=wanted))


def seed(root: Tensor, gradient: ArrayLike | None) -> Array:
    """d(loss)/d(root): what was given, checked, or 1 for a single number."""
    if not root.requires_grad:
        raise RuntimeError(errors.NOT_RECORDED)
    if gradient is None:
        if root._array.size != 1:
            raise RuntimeError(errors.NOT_SCALAR.format(shape=root.shape))
        return np.ones(root.shape, root.dtype)
    given = copied(gradient, dtype_for(gradient, root.dtype), requires_grad=False)
    if given.shape != root.shape or given.dtype != root.dtype:
        raise ValueError(errors.SEED.format(got=errors.kind(given), wanted=errors.kind(root._array)))
    return given


def width(width: int) -> None:
    """Refuse what is no number of inputs or outputs."""
    if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
        raise ValueError(errors.WIDTH.format(width=width))
