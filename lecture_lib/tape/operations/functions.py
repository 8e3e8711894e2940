"""Functions of each entry, softmax, and the loss of a classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks
from ..graph import Array, Rule


def relu(x: Array) -> tuple[Array, Rule]:
    """x where it is positive, else 0."""
    value = np.maximum(x, 0)
    return value, lambda gradient: gradient * (value > 0)


def tanh(x: Array) -> tuple[Array, Rule]:
    """The hyperbolic tangent."""
    value = np.tanh(x)
    return value, lambda gradient: gradient * (1 - value * value)


def sigmoid(x: Array) -> tuple[Array, Rule]:
    """1 / (1 + e ** -x)."""
    small = np.exp(-np.abs(x))  # at most 1: exp of a large number would overflow
    value = np.where(x >= 0, 1, small) / (1 + small)
    return value, lambda gradient: gradient * value * (1 - value)


def exp(x: Array) -> tuple[Array, Rule]:
    """e ** x."""
    value = np.exp(x)
    return value, lambda gradient: gradient * value


def log(x: Array) -> tuple[Array, Rule]:
    """The natural logarithm."""
    return np.log(x), lambda gradient: gradient / x


def sqrt(x: Array) -> tuple[Array, Rule]:
    """The square root."""
    value = np.sqrt(x)
    return value, lambda gradient: gradient / (2 * value)


def log_softmax(x: Array, axis: int) -> tuple[Array, Rule]:
    """log(exp(x) / sum(exp(x))) over `axis`, computed without overflow."""
    shifted = x - x.max(axis=axis, keepdims=True)
    value = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return value, lambda gradient: gradient - np.exp(value) * gradient.sum(axis=axis, keepdims=True)


def cross_entropy(logits: Array, labels: ArrayLike) -> tuple[Array, Rule]:
    """The mean of -log softmax(logits)[label] over a batch: [examples, classes] and [examples]."""
    classes = _checks.class_labels(logits, labels)
    count = len(classes)
    examples = np.arange(count)
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    losses = np.log(sums[:, 0]) - shifted[examples, classes]

    def rule(gradient: Array) -> Array:
        part = gradient / count
        result = exponentials * (part / sums)  # softmax, and less 1 at the label
        result[examples, classes] -= part
        return result

    return losses.sum() / count, rule
