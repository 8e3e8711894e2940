"""The same entries in another arrangement, some of them, or several tensors' together."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from .. import errors
from ..checks import explained
from ..graph import Array
from ..tensor import Lengths, Tensor, record
from ..values import copied_key


def reshape(x: Tensor, *shape: Lengths) -> Tensor:
    """The same entries, in order, in another shape; one length may be -1."""
    facts = {"size": x._array.size, "shape": x.shape, "lengths": shape}
    value = explained(errors.RESHAPE, x._array.reshape, *shape, **facts)
    return record("reshape", value, (x, lambda gradient: gradient.reshape(x.shape)))


def transpose(x: Tensor, *axes: Lengths) -> Tensor:
    """The axes in another order; reversed when none is given."""
    order = np.ravel(axes or range(x.ndim)[::-1]).astype(int)
    value = explained(errors.TRANSPOSE, x._array.transpose, order, shape=x.shape)
    back = np.argsort(order % max(x.ndim, 1))
    return record("transpose", value, (x, lambda gradient: gradient.transpose(back)))


def index(x: Tensor, key: Any) -> Tensor:
    """x[key], with NumPy's keys; an entry that is taken several times gets the sum of its gradients."""
    keys = copied_key(key)
    value = explained(errors.INDEX, x._array.__getitem__, keys, shape=x.shape)

    def rule(gradient: Array) -> Array:
        share = np.zeros(x.shape, x.dtype)
        np.add.at(share, keys, gradient)
        return share

    return record("index", value, (x, rule))


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along an axis that exists."""
    arrays = [tensor._array for tensor in tensors]
    value = explained(errors.CONCATENATE, np.concatenate, arrays, axis, shapes=[array.shape for array in arrays])
    inputs, start = [], 0
    for tensor in tensors:
        end = start + tensor.shape[axis]
        part = (slice(None),) * (axis % value.ndim) + (slice(start, end),)
        inputs.append((tensor, itemgetter(part)))
        start = end
    return record("concatenate", value, *inputs)
