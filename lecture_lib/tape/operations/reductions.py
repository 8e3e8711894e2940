"""Reductions. `axis` is a number, several, or None for all; `keepdims` leaves an axis of length 1 in its place."""

from __future__ import annotations

import numpy as np

from ..graph import Array, Rule

Axes = int | tuple[int, ...] | None


def sum(x: Array, axis: Axes, keepdims: bool) -> tuple[Array, Rule]:
    """The sum over `axis`."""
    return x.sum(axis, keepdims=keepdims), lambda gradient: repeated(gradient, x, axis, keepdims)


def mean(x: Array, axis: Axes, keepdims: bool) -> tuple[Array, Rule]:
    """The mean over `axis`."""
    value = x.mean(axis, keepdims=keepdims)
    count = x.size / (value.size or 1)
    return value, lambda gradient: repeated(gradient / count, x, axis, keepdims)


def max(x: Array, axis: Axes, keepdims: bool) -> tuple[Array, Rule]:
    """The largest entry over `axis`. Equal maxima get equal parts of the gradient, as in torch.amax."""
    value = x.max(axis, keepdims=keepdims)

    def rule(gradient: Array) -> Array:
        largest = x == repeated(value, x, axis, keepdims)
        part = gradient / largest.sum(axis=axis, keepdims=keepdims, dtype=value.dtype)
        return largest * repeated(part, x, axis, keepdims)

    return value, rule


def repeated(reduced: Array, x: Array, axis: Axes, keepdims: bool) -> Array:
    """A reduction's result, or its gradient, repeated along the axes that were reduced."""
    if axis is not None and not keepdims:
        reduced = np.expand_dims(reduced, axis)
    return np.broadcast_to(reduced, x.shape)
