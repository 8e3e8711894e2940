"""Arithmetic, with broadcasting. The rules ignore it: the backward pass sums over what was stretched."""

from __future__ import annotations

import numpy as np

from .. import _checks
from ..graph import Array, Rule


def add(x: Array, y: Array) -> tuple[Array, Rule, Rule]:
    """x + y."""
    return x + y, lambda gradient: gradient, lambda gradient: gradient


def subtract(x: Array, y: Array) -> tuple[Array, Rule, Rule]:
    """x - y."""
    return x - y, lambda gradient: gradient, lambda gradient: -gradient


def multiply(x: Array, y: Array) -> tuple[Array, Rule, Rule]:
    """x * y, entry by entry."""
    return x * y, lambda gradient: gradient * y, lambda gradient: gradient * x


def divide(x: Array, y: Array) -> tuple[Array, Rule, Rule]:
    """x / y, entry by entry."""
    value = x / y
    return value, lambda gradient: gradient / y, lambda gradient: -gradient * value / y


def negate(x: Array) -> tuple[Array, Rule]:
    """-x."""
    return -x, lambda gradient: -gradient


def power(x: Array, n: Array) -> tuple[Array, Rule, Rule]:
    """x ** n, entry by entry."""
    value = np.power(x, n)

    def base_rule(gradient: Array) -> Array:
        # d(x**0)/dx is 0 at x = 0 too, where the formula would give 0 · 0**-1.
        return gradient * n * x ** np.where(n == 0, 1, n - 1).astype(x.dtype)

    def exponent_rule(gradient: Array) -> Array:
        # value · log(x) tends to 0 where x does.
        return gradient * value * np.log(np.where((x == 0) & (n >= 0), 1, x).astype(x.dtype))

    return value, base_rule, exponent_rule


def matmul(x: Array, y: Array) -> tuple[Array, Rule, Rule]:
    """x @ y: matrices, vectors, and batches of matrices, whose leading axes broadcast."""
    # A vector on the left is a matrix of one row, a vector on the right a matrix of one column.
    rows = x[np.newaxis, :] if x.ndim == 1 else x
    columns = y[:, np.newaxis] if y.ndim == 1 else y
    added = (-1,) if y.ndim == 1 else ()
    product = rows @ columns
    shape = product.shape
    return (
        product.squeeze((-2, *added) if x.ndim == 1 else added),
        lambda gradient: gradient.reshape(shape) @ columns.mT,
        lambda gradient: (rows.mT @ gradient.reshape(shape)).squeeze(added),
    )


def linear(x: Array, weight: Array, bias: Array) -> tuple[Array, Rule, Rule, Rule]:
    """x @ weight + bias: [examples, inputs], [inputs, outputs] and [outputs]."""
    _checks.linear_shapes(x, weight, bias)
    return (
        x @ weight + bias,
        lambda gradient: gradient @ weight.T,
        lambda gradient: x.T @ gradient,
        lambda gradient: gradient.sum(axis=0),
    )
