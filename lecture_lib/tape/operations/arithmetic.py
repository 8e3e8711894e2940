"""Arithmetic, with broadcasting. The rules ignore it: the walk back sums over what was stretched."""

from __future__ import annotations

import numpy as np

from ..checks import broadcast, linear_shapes, operands
from ..graph import Array
from ..tensor import Operand, Tensor, record


def add(x: Operand, y: Operand) -> Tensor:
    """x + y."""
    x, y = operands("add", x, y)
    value = broadcast("add", np.add, x, y)
    return record("add", value, (x, lambda gradient: gradient), (y, lambda gradient: gradient))


def subtract(x: Operand, y: Operand) -> Tensor:
    """x - y."""
    x, y = operands("subtract", x, y)
    value = broadcast("subtract", np.subtract, x, y)
    return record("subtract", value, (x, lambda gradient: gradient), (y, lambda gradient: -gradient))


def multiply(x: Operand, y: Operand) -> Tensor:
    """x * y, entry by entry."""
    x, y = operands("multiply", x, y)
    a, b = x._array, y._array
    value = broadcast("multiply", np.multiply, x, y)
    return record("multiply", value, (x, lambda gradient: gradient * b), (y, lambda gradient: gradient * a))


def divide(x: Operand, y: Operand) -> Tensor:
    """x / y, entry by entry."""
    x, y = operands("divide", x, y)
    b = y._array
    value = broadcast("divide", np.divide, x, y)
    return record("divide", value, (x, lambda gradient: gradient / b), (y, lambda gradient: -gradient * value / b))


def negate(x: Tensor) -> Tensor:
    """-x."""
    return record("negate", -x._array, (x, lambda gradient: -gradient))


def power(x: Operand, exponent: Operand) -> Tensor:
    """x ** exponent, entry by entry."""
    x, exponent = operands("power", x, exponent)
    a, n = x._array, exponent._array
    value = broadcast("power", np.power, x, exponent)

    def base_rule(gradient: Array) -> Array:
        # d(x**0)/dx is 0 at x = 0 too, where the formula would give 0 · 0**-1.
        return gradient * n * a ** np.where(n == 0, 1, n - 1).astype(a.dtype)

    def exponent_rule(gradient: Array) -> Array:
        # value · log(x) tends to 0 where x does.
        return gradient * value * np.log(np.where((a == 0) & (n >= 0), 1, a).astype(a.dtype))

    return record("power", value, (x, base_rule), (exponent, exponent_rule))


def matmul(x: Operand, y: Operand) -> Tensor:
    """x @ y: matrices, vectors, and batches of matrices, whose leading axes broadcast."""
    x, y = operands("matmul", x, y)
    value = broadcast("matmul", np.matmul, x, y)
    if x.ndim == 1:  # a vector on the left is a matrix of one row
        return matmul(x[np.newaxis, :], y)[0] if y.ndim == 1 else matmul(x[np.newaxis, :], y)[..., 0, :]
    if y.ndim == 1:  # on the right, of one column
        return matmul(x, y[:, np.newaxis])[..., 0]
    a, b = x._array, y._array
    return record("matmul", value, (x, lambda gradient: gradient @ b.mT), (y, lambda gradient: a.mT @ gradient))


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x @ weight + bias in one operation: [examples, inputs], [inputs, outputs] and [outputs]."""
    linear_shapes(x, weight, bias)
    a, w = x._array, weight._array
    return record(
        "linear",
        a @ w + bias._array,
        (x, lambda gradient: gradient @ w.T),
        (weight, lambda gradient: a.T @ gradient),
        (bias, lambda gradient: gradient.sum(axis=0)),
    )
