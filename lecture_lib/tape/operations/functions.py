"""Functions of one entry, and from scores of classes to a loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..checks import class_labels, reduced
from ..graph import Array
from ..tensor import Tensor, record


def relu(x: Tensor) -> Tensor:
    """x where it is positive, else 0."""
    value = np.maximum(x._array, 0)
    return record("relu", value, (x, lambda gradient: gradient * (value > 0)))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    value = np.tanh(x._array)
    return record("tanh", value, (x, lambda gradient: gradient * (1 - value * value)))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e ** -x)."""
    small = np.exp(-np.abs(x._array))  # at most 1: exp of a large number would overflow
    value = np.where(x._array >= 0, 1, small) / (1 + small)
    return record("sigmoid", value, (x, lambda gradient: gradient * value * (1 - value)))


def exp(x: Tensor) -> Tensor:
    """e ** x."""
    value = np.exp(x._array)
    return record("exp", value, (x, lambda gradient: gradient * value))


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return record("log", np.log(x._array), (x, lambda gradient: gradient / x._array))


def sqrt(x: Tensor) -> Tensor:
    """The square root."""
    value = np.sqrt(x._array)
    return record("sqrt", value, (x, lambda gradient: gradient / (2 * value)))


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(exp(x) / sum(exp(x))) over `axis`, computed without overflow."""
    shifted = x._array - reduced("log_softmax", np.max, x, axis, True)
    value = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    def rule(gradient: Array) -> Array:
        return gradient - np.exp(value) * gradient.sum(axis=axis, keepdims=True)

    return record("log_softmax", value, (x, rule))


def cross_entropy(logits: Tensor, labels: ArrayLike | Tensor) -> Tensor:
    """The mean of -log softmax(logits)[label] over a batch.

    Args:
        logits: [examples, classes], not yet softmaxed.
        labels: [examples], integers 0 to classes - 1.

    Raises:
        TypeError: labels are no integers.
        ValueError: labels out of range, or other shapes.

    """
    classes = class_labels(logits, labels)
    examples = np.arange(len(classes))
    shifted = logits._array - logits._array.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    losses = np.log(sums[:, 0]) - shifted[examples, classes]

    def rule(gradient: Array) -> Array:
        share = exponentials * (gradient / len(classes) / sums)
        share[examples, classes] -= gradient / len(classes)
        return share

    return record("cross_entropy", losses.sum() / len(classes), (logits, rule))
