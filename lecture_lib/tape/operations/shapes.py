"""Operations that move entries and compute nothing: reshape, transpose, index, concatenate."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from ..graph import Array, Rule


def reshape(x: Array, lengths: tuple[Any, ...]) -> tuple[Array, Rule]:
    """The same entries, in order, in another shape; one length may be -1."""
    return x.reshape(*lengths), lambda gradient: gradient.reshape(x.shape)


def transpose(x: Array, axes: tuple[Any, ...]) -> tuple[Array, Rule]:
    """The axes in another order; reversed when none is given."""
    order = np.ravel(axes or range(x.ndim)[::-1]).astype(int)
    return x.transpose(order), lambda gradient: gradient.transpose(np.argsort(order % max(x.ndim, 1)))


def index(x: Array, key: tuple[Any, ...]) -> tuple[Array, Rule]:
    """x[key], with NumPy's keys; an entry that is taken several times gets the sum of its gradients."""

    def rule(gradient: Array) -> Array:
        result = np.zeros(x.shape, x.dtype)
        np.add.at(result, key, gradient)
        return result

    return x[key], rule


def concatenate(*arrays: Array, axis: int) -> tuple[Array, *tuple[Rule, ...]]:
    """The arrays, joined along an axis that exists."""
    value = np.concatenate(arrays, axis)
    rules, end = [], 0
    for array in arrays:
        start, end = end, end + array.shape[axis]
        rules.append(itemgetter((slice(None),) * (axis % value.ndim) + (slice(start, end),)))
    return value, *rules
