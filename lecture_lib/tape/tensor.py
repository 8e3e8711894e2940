"""Tensor: a NumPy array that remembers which operation made it, and from what.

Read `record` first (what is remembered), then `graph.walk_back` (how gradients flow), then `Tensor.backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import checks, errors
from .graph import Array, Inputs, Rule, mode, numbers, walk_back
from .values import Values, copied


class Tensor:
    """An array of float64 (default) or float32 that can be differentiated; integers serve as labels and indices.

    Args:
        values: numbers, nested lists or an array; they are copied.
        dtype: np.float64 or np.float32; default: the array's own, float64 for Python floats.
        requires_grad: whether `backward` shall leave d(loss)/d(this) in `.grad`, a NumPy array of the same shape.

    Raises:
        ValueError: the lists are ragged.
        TypeError: the dtype is another one, or integers shall require gradients.

    """

    __array_ufunc__ = None  # array + tensor is left to Tensor.__radd__
    __slots__ = ("_array", "_inputs", "_number", "_operation", "_requires_grad", "_used_by", "grad")

    grad: Array | None
    _array: Array  # never written: a tensor that is changed gets a new one
    _requires_grad: bool
    _operation: str  # "" for a leaf
    _inputs: Inputs | None  # () for a leaf, None once the graph was freed
    _number: int  # see graph.numbers
    _used_by: str  # the last operation that recorded this value, for errors

    def __init__(self, values: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False) -> None:
        self._fill(copied(values, dtype, requires_grad), requires_grad)

    def _fill(self, array: Array, requires_grad: bool, operation: str = "", inputs: Inputs = ()) -> Tensor:
        self._array = array
        self._requires_grad = requires_grad
        self._operation = operation
        self._inputs = inputs
        self._number = next(numbers)
        self._used_by = ""
        self.grad = None
        return self

    def backward(self, gradient: ArrayLike | None = None, *, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to `.grad` of every leaf that requires it, then free the graph.

        Args:
            gradient: d(loss)/d(self), of this tensor's shape; may be left out for a single number, then it is 1.
            retain_graph: keep the graph, so that a later `backward` can use it again.

        Raises:
            RuntimeError: nothing was recorded, the graph was freed, or a recorded value was changed since. Then no
                `.grad` has changed.

        """
        visited = list(walk_back(self, checks.seed(self, gradient)))
        for tensor, total in visited:
            if tensor.is_leaf:
                # A copy, for the same array may be another tensor's gradient as well.
                tensor.grad = total.copy() if tensor.grad is None else np.asarray(tensor.grad + total)
            elif not retain_graph:
                tensor._inputs = None

    def zero_grad(self) -> None:
        """Forget the gradient, so that the next `backward` starts from nothing."""
        self.grad = None

    def detach(self) -> Tensor:
        """The same values without their history: no gradient flows through."""
        return Tensor.__new__(Tensor)._fill(self._array, False)

    @property
    def data(self) -> Array:
        """The values, read-only. To change them: `with no_grad(): w -= step`, or `w.data = values`."""
        return Values.of(self._array, self._used_by or self._operation)

    @data.setter
    def data(self, values: ArrayLike) -> None:
        self._replace(copied(values, checks.dtype_for(values, self.dtype), self._requires_grad), "x.data = values")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to here."""
        return self._requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it. Only leaves get a `.grad`."""
        return not self._operation

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype:
        """float64 or float32, or the integers' type."""
        return self._array.dtype

    def _update(self, symbol: str, compute: Callable[[], Tensor]) -> Tensor:
        """`w -= step` changes a parameter under no_grad and is an error while recording; else it is `w = w - step`."""
        if self._operation or not self._requires_grad:
            return compute()
        checks.not_recording(self, f"x {symbol} ...", mode.recording)
        return self._replace(compute()._array, f"x {symbol} ...")

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        checks.not_recording(self, "x[...] = ...", mode.recording)
        array = self._array.copy()
        array[key] = value
        self._replace(array, "x[...] = ...")

    def _replace(self, array: Array, how: str) -> Tensor:
        """Give a leaf other values. The old array stays as it is for whoever still uses it."""
        checks.replacement(self, array, how)
        array.setflags(write=False)
        self._array = array
        self._number = next(numbers)
        return self

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(checks.without_history(self), dtype=dtype)

    def __repr__(self) -> str:
        values = np.array2string(self._array, separator=", ", prefix="Tensor(")
        made_by = f", operation='{self._operation}'" if self._operation else ""
        return f"Tensor({values}, dtype={self.dtype}, requires_grad={self._requires_grad}{made_by})"

    # The symbols, and the methods that are operations: a table, one line each. A copy, also by pickle, is a new leaf.
    # fmt: off
    def __add__(self, other: Operand) -> Tensor: return arithmetic.add(self, other)
    def __radd__(self, other: Operand) -> Tensor: return arithmetic.add(other, self)
    def __iadd__(self, other: Operand) -> Tensor: return self._update("+=", lambda: self + other)
    def __sub__(self, other: Operand) -> Tensor: return arithmetic.subtract(self, other)
    def __rsub__(self, other: Operand) -> Tensor: return arithmetic.subtract(other, self)
    def __isub__(self, other: Operand) -> Tensor: return self._update("-=", lambda: self - other)
    def __mul__(self, other: Operand) -> Tensor: return arithmetic.multiply(self, other)
    def __rmul__(self, other: Operand) -> Tensor: return arithmetic.multiply(other, self)
    def __imul__(self, other: Operand) -> Tensor: return self._update("*=", lambda: self * other)
    def __truediv__(self, other: Operand) -> Tensor: return arithmetic.divide(self, other)
    def __rtruediv__(self, other: Operand) -> Tensor: return arithmetic.divide(other, self)
    def __itruediv__(self, other: Operand) -> Tensor: return self._update("/=", lambda: self / other)
    def __pow__(self, other: Operand) -> Tensor: return arithmetic.power(self, other)
    def __rpow__(self, other: Operand) -> Tensor: return arithmetic.power(other, self)
    def __matmul__(self, other: Operand) -> Tensor: return arithmetic.matmul(self, other)
    def __rmatmul__(self, other: Operand) -> Tensor: return arithmetic.matmul(other, self)
    def __neg__(self) -> Tensor: return arithmetic.negate(self)
    def __getitem__(self, key: Any) -> Tensor: return shapes.index(self, key)
    def __iter__(self) -> Iterator[Tensor]: return (self[row] for row in range(len(self)))
    def __len__(self) -> int: return len(self._array)
    def __bool__(self) -> bool: return bool(self._array)
    def __float__(self) -> float: return float(self.item())
    def __reduce__(self) -> tuple: return partial(Tensor, requires_grad=self._requires_grad), (self._array,)
    def item(self) -> float: return self._array.item()
    def exp(self) -> Tensor: return functions.exp(self)
    def log(self) -> Tensor: return functions.log(self)
    def sqrt(self) -> Tensor: return functions.sqrt(self)
    def relu(self) -> Tensor: return functions.relu(self)
    def tanh(self) -> Tensor: return functions.tanh(self)
    def sigmoid(self) -> Tensor: return functions.sigmoid(self)
    def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor: return reductions.sum(self, axis, keepdims)
    def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor: return reductions.mean(self, axis, keepdims)
    def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor: return reductions.amax(self, axis, keepdims)
    def reshape(self, *shape: Lengths) -> Tensor: return shapes.reshape(self, *shape)
    def transpose(self, *axes: Lengths) -> Tensor: return shapes.transpose(self, *axes)
    def log_softmax(self, axis: int = -1) -> Tensor: return functions.log_softmax(self, axis)
    @property
    def T(self) -> Tensor: return shapes.transpose(self)  # noqa: N802
    # fmt: on


Operand = Tensor | ArrayLike
Axes = int | tuple[int, ...] | None
Lengths = int | tuple[int, ...]


def record(operation: str, value: Array, *inputs: tuple[Tensor, Rule]) -> Tensor:
    """A tensor with `value` that remembers the operation's inputs and the backward rule for each.

    Args:
        operation: the name that drawings, tables and errors show.
        value: the result of the forward computation; the tape takes it over and makes it read-only.
        inputs: for each input (tensor, rule). The rule gets d(loss)/d(value) and returns d(loss)/d(input): a new
            array, or its argument unchanged. Where the input was broadcast the rule need not sum: the walk back does.

    Raises:
        TypeError: the dtypes differ; the tape never converts between float32 and float64 on its own.

    """
    value = np.asarray(value)  # NumPy's functions give a number, not an array, for arrays without axes
    if mode.replay:
        value = mode.replay(operation, value)
    value.setflags(write=False)
    requires_grad = False
    for source, _ in inputs:
        if source._array.dtype != value.dtype:
            raise TypeError(errors.DTYPES.format(operation=operation, source=source.dtype, value=value.dtype))
        requires_grad = requires_grad or source._requires_grad
    if not (requires_grad and mode.recording):
        return Tensor.__new__(Tensor)._fill(value, False)
    for source, _ in inputs:
        source._used_by = operation
    return Tensor.__new__(Tensor)._fill(value, True, operation, inputs)


# Below, for they need Tensor and record.
from .operations import arithmetic, functions, reductions, shapes  # noqa: E402
