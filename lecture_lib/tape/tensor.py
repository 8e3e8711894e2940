"""Tensor: a NumPy array that remembers which operation made it, and from what.

Read `graph` first (nodes and the backward pass), then `apply` here (an operation is computed and recorded), then
`Tensor.backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _checks, _values
from .graph import Array, Node, Rule, backward_pass, mode, numbers
from .operations import arithmetic, functions, reductions, shapes


class Tensor(Node):
    """An array of float64 (default) or float32 that can be differentiated; integers serve as labels and indices.

    Args:
        values: numbers, nested lists or an array; they are copied.
        dtype: np.float64 or np.float32; default: the array's own, float64 for Python floats.
        requires_grad: whether `backward` must leave d(loss)/d(this) in `.grad`, a NumPy array of the same shape.

    Raises:
        ValueError: the lists are ragged.
        TypeError: another dtype, or integers that require gradients.

    """

    __array_ufunc__ = None  # array + tensor is left to Tensor.__radd__
    __slots__ = ()

    def __init__(self, values: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False) -> None:
        self._fill(_values.copied(values, dtype, requires_grad), requires_grad)

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to `.grad` of every leaf that requires it, then free the graph.

        Args:
            gradient: d(loss)/d(self), an array of this tensor's shape; may be left out for a scalar, where it is 1.
            retain_graph: keep the graph, so that a later `backward` can use it again.
            create_graph: must be False: unlike PyTorch, this tape has no second derivatives.

        Raises:
            NotImplementedError: create_graph is True.
            RuntimeError: nothing was recorded, the graph was freed, or a recorded value was changed since. Then no
                `.grad` has changed.

        """
        visited = list(backward_pass(self, _checks.seed(self, gradient, create_graph)))
        for node, total in visited:
            if not node._operation:
                # A copy, for the same array may be another node's gradient as well.
                node.grad = total.copy() if node.grad is None else np.asarray(node.grad + total)
            elif not retain_graph:
                node._inputs, node._rules = None, ()

    def zero_grad(self) -> None:
        """Forget the gradient, so that the next `backward` starts from nothing."""
        self.grad = None

    def detach(self) -> Tensor:
        """The same values without their history: no gradient flows through."""
        return Tensor.__new__(Tensor)._fill(self._array, False)

    @property
    def data(self) -> Array:
        """The values, read-only. To change them: `with no_grad(): w -= step`, or `w.data = values`."""
        return _values.Values.of(self._array, self._used_by or self._operation)

    @data.setter
    def data(self, values: ArrayLike) -> None:
        array = _values.copied(values, _checks.dtype_for(values, self.dtype), self._requires_grad)
        self._replace(array, "x.data = values")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
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
        _checks.not_recording(self, f"x {symbol} ...", mode.recording)
        return self._replace(compute()._array, f"x {symbol} ...")

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        _checks.not_recording(self, "x[...] = ...", mode.recording)
        array = self._array.copy()
        array[key] = value
        self._replace(array, "x[...] = ...")

    def _replace(self, array: Array, how: str) -> Tensor:
        """Give a leaf other values. The old array stays as it is for whoever still uses it."""
        if self._operation or array.shape != self._array.shape or array.dtype != self._array.dtype:
            raise _checks.replacement(self, array, how)
        array.setflags(write=False)
        self._array = array
        self._number = next(numbers)
        return self

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(_checks.without_history(self), dtype=dtype)

    def __repr__(self) -> str:
        values = np.array2string(self._array, separator=", ", prefix="Tensor(")
        made_by = f", operation='{self._operation}'" if self._operation else ""
        return f"Tensor({values}, dtype={self.dtype}, requires_grad={self._requires_grad}{made_by})"

    # The symbols, and the methods that are operations: a table, one line each. Copying or unpickling gives a new leaf.
    # fmt: off
    def __add__(self, other: Operand) -> Tensor: return apply(arithmetic.add, self, other)
    def __radd__(self, other: Operand) -> Tensor: return apply(arithmetic.add, other, self)
    def __iadd__(self, other: Operand) -> Tensor: return self._update("+=", lambda: self + other)
    def __sub__(self, other: Operand) -> Tensor: return apply(arithmetic.subtract, self, other)
    def __rsub__(self, other: Operand) -> Tensor: return apply(arithmetic.subtract, other, self)
    def __isub__(self, other: Operand) -> Tensor: return self._update("-=", lambda: self - other)
    def __mul__(self, other: Operand) -> Tensor: return apply(arithmetic.multiply, self, other)
    def __rmul__(self, other: Operand) -> Tensor: return apply(arithmetic.multiply, other, self)
    def __imul__(self, other: Operand) -> Tensor: return self._update("*=", lambda: self * other)
    def __truediv__(self, other: Operand) -> Tensor: return apply(arithmetic.divide, self, other)
    def __rtruediv__(self, other: Operand) -> Tensor: return apply(arithmetic.divide, other, self)
    def __itruediv__(self, other: Operand) -> Tensor: return self._update("/=", lambda: self / other)
    def __pow__(self, other: Operand) -> Tensor: return apply(arithmetic.power, self, other)
    def __rpow__(self, other: Operand) -> Tensor: return apply(arithmetic.power, other, self)
    def __matmul__(self, other: Operand) -> Tensor: return apply(arithmetic.matmul, self, other)
    def __rmatmul__(self, other: Operand) -> Tensor: return apply(arithmetic.matmul, other, self)
    def __neg__(self) -> Tensor: return apply(arithmetic.negate, self)
    def __getitem__(self, key: Any) -> Tensor: return apply(shapes.index, self, key=_values.copied_key(key))
    def __iter__(self) -> Iterator[Tensor]: return (self[row] for row in range(len(self)))
    def __len__(self) -> int: return len(self._array)
    def __bool__(self) -> bool: return bool(self._array)
    def __float__(self) -> float: return float(self.item())
    def __reduce__(self) -> tuple: return partial(Tensor, requires_grad=self._requires_grad), (self._array,)
    def item(self) -> float: return self._array.item()
    def reshape(self, *shape: int | tuple[int, ...]) -> Tensor: return apply(shapes.reshape, self, lengths=shape)
    def transpose(self, *axes: int | tuple[int, ...]) -> Tensor: return apply(shapes.transpose, self, axes=axes)
    @property
    def T(self) -> Tensor: return self.transpose()  # noqa: N802
    # fmt: on

    def sum(self, axis: reductions.Axes = None, keepdims: bool = False) -> Tensor:
        """The sum over `axis`: a number, several, or None for all."""
        return apply(reductions.sum, self, axis=axis, keepdims=keepdims)

    def mean(self, axis: reductions.Axes = None, keepdims: bool = False) -> Tensor:
        """The mean over `axis`."""
        return apply(reductions.mean, self, axis=axis, keepdims=keepdims)

    def max(self, axis: reductions.Axes = None, keepdims: bool = False) -> Tensor:
        """The largest entry over `axis`. Equal maxima get equal parts of the gradient, as in torch.amax."""
        return apply(reductions.max, self, axis=axis, keepdims=keepdims)

    def exp(self) -> Tensor:
        """e ** x."""
        return apply(functions.exp, self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return apply(functions.log, self)

    def sqrt(self) -> Tensor:
        """The square root."""
        return apply(functions.sqrt, self)

    def relu(self) -> Tensor:
        """x where it is positive, else 0."""
        return apply(functions.relu, self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return apply(functions.tanh, self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + e ** -x)."""
        return apply(functions.sigmoid, self)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """log(exp(x) / sum(exp(x))) over `axis`, computed without overflow."""
        return apply(functions.log_softmax, self, axis=axis)


Operand = Tensor | ArrayLike


def record(operation: str, value: Array, *inputs: tuple[Tensor, Rule]) -> Tensor:
    """A tensor with `value` that remembers the operation's inputs and the backward rule for each.

    Args:
        operation: the name that drawings, tables and errors show.
        value: the result of the forward computation; the tape takes it over and makes it read-only.
        inputs: for each input (tensor, rule). The rule gets d(loss)/d(value) and returns d(loss)/d(input): a new
            array, or its argument unchanged. Where the input was broadcast the rule need not sum: the backward pass
            does.

    Raises:
        TypeError: the dtypes differ; the tape never converts between float32 and float64 on its own.

    """
    return _recorded(operation, value, [source for source, _ in inputs], [rule for _, rule in inputs])


def apply(operation: Callable[..., tuple[Array, *tuple[Rule, ...]]], *inputs: Any, **options: Any) -> Tensor:
    """Compute an operation of arrays on tensors, and record it.

    Args:
        operation: a function in `operations`.
        inputs: at least one tensor; numbers, lists and arrays beside it become constants.
        options: what the operation takes besides arrays, such as axis=0.

    """
    try:
        arrays = [x._array for x in inputs]
    except AttributeError:  # a number, a list or an array is among them
        return apply(operation, *_checks.operands(operation.__name__, inputs), **options)
    try:
        value, *rules = operation(*arrays, **options)
    except (ValueError, IndexError) as error:
        raise _checks.explained(error, operation.__name__, arrays, options) from None
    return _recorded(operation.__name__, value, inputs, rules)


def _recorded(operation: str, value: Array, inputs: Sequence[Node], rules: Sequence[Rule]) -> Tensor:
    """The result of an operation, with what the backward pass needs if an input requires gradients."""
    value = np.asarray(value)  # NumPy's functions return a scalar, not an array, for 0-d arrays
    if mode.replay:
        value = mode.replay(operation, value)
    value.setflags(write=False)
    dtype, requires_grad = value.dtype, False
    for source in inputs:
        if source._array.dtype is not dtype and source._array.dtype != dtype:  # `is` first: it is faster
            raise _checks.different_dtypes(operation, source._array.dtype, dtype)
        requires_grad = requires_grad or source._requires_grad
    tensor = Tensor.__new__(Tensor)._fill(value, requires_grad and mode.recording)
    if tensor._requires_grad:
        tensor._operation, tensor._inputs, tensor._rules = operation, inputs, rules
        for source in inputs:
            source._used_by = operation
    return tensor


def matmul(x: Operand, y: Operand) -> Tensor:
    """x @ y: matrices, vectors, and batches of matrices, whose leading axes broadcast."""
    return apply(arithmetic.matmul, x, y)


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors, joined along an existing axis."""
    return apply(shapes.concatenate, *tensors, axis=axis)
