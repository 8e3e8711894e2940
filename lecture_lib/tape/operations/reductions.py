"""Reductions. `axis` is a number, several, or None for all; `keepdims` leaves an axis of length 1 in its place."""

from __future__ import annotations

import numpy as np

from ..checks import reduced
from ..graph import Array
from ..tensor import Axes, Tensor, record


def sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis`."""
    value = reduced("sum", np.sum, x, axis, keepdims)
    return record("sum", value, (x, lambda gradient: repeated(gradient, x, axis, keepdims)))


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean over `axis`."""
    value = reduced("mean", np.mean, x, axis, keepdims)
    count = x._array.size / max(np.size(value), 1)
    return record("mean", value, (x, lambda gradient: repeated(gradient / count, x, axis, keepdims)))


def amax(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest entry over `axis`. Equal maxima share the gradient evenly, as in torch.amax."""
    value = reduced("max", np.max, x, axis, keepdims)

    def rule(gradient: Array) -> Array:
        largest = x._array == repeated(value, x, axis, keepdims)
        shared = gradient / largest.sum(axis=axis, keepdims=keepdims, dtype=value.dtype)
        return largest * repeated(shared, x, axis, keepdims)

    return record("max", value, (x, rule))


def repeated(reduced: Array, x: Tensor, axis: Axes, keepdims: bool) -> Array:
    """A reduction's result, or its gradient, repeated along the axes that were reduced."""
    if axis is not None and not keepdims:
        reduced = np.expand_dims(reduced, axis)
    return np.broadcast_to(reduced, x.shape)
