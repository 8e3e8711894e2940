"""Which examples a classifier gets wrong, the worst first; and how it does on slices of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .metrics import Array, checked_classes, require_probabilities


class Mistake(NamedTuple):
    """A wrong example: its position, classes, the predicted class's probability, and -log of the true one's."""

    example: int
    true: int
    predicted: int
    confidence: float
    loss: float


class Slice(NamedTuple):
    """A metric on the examples of one value; low and high hold for all slices together."""

    value: Any
    examples: int
    metric: float
    low: float
    high: float


def error_table(outputs: Array, labels: Array) -> list[Mistake]:
    """The mistakes of a classifier, the largest loss first.

    Source: lecture part 5, error analysis.

    Args:
        outputs: probabilities [N, C], see `probabilities`.
        labels: class indices [N].

    Returns:
        A row for each example whose largest probability is not at its label; none when all are right.

    Raises:
        ValueError: lengths differ, something is not finite, a label is no class, or outputs are no probabilities.

    """
    scores, classes, _ = checked_classes(outputs, labels, None)
    predicted, rows = require_probabilities(scores).argmax(axis=1), np.arange(len(classes))
    # A true class of probability 0 has no finite loss; the smallest number keeps the order.
    losses = -np.log(np.maximum(scores[rows, classes], np.finfo(float).tiny))
    wrong = np.flatnonzero(predicted != classes)
    return [
        Mistake(int(i), int(classes[i]), int(predicted[i]), float(scores[i, predicted[i]]), float(losses[i]))
        for i in wrong[np.argsort(-losses[wrong], kind="stable")]
    ]


def slices(
    values: Array, column: Sequence[Any] | np.ndarray, *, level: float = 0.95, higher_is_better: bool = True
) -> list[Slice]:
    """A metric for each value of a column, the worst first.

    The worst of many slices looks bad by chance alone, so the intervals are widened to hold for all of them together
    with probability `level` (Bonferroni): Wilson's for 0 and 1, Student's t for other numbers.
    Source: lecture part 5, error analysis.

    Args:
        values: a number for each example [N]: 1 where it is right and 0 where not, or its loss.
        column: what to slice by [N], such as a camera, a class or an age group.
        level: of all intervals together, between 0 and 1.
        higher_is_better: False for losses.

    Raises:
        ValueError: lengths differ, a value is not finite, or the level is not between 0 and 1.

    """
    from scipy.stats import binomtest, sem, t

    numbers, names = np.asarray(values, dtype=float), np.asarray(column)
    if numbers.ndim != 1 or numbers.shape != names.shape or not np.isfinite(numbers).all() or not 0 < level < 1:
        shapes = f"values {list(numbers.shape)}, column {list(names.shape)}, level {level}"
        raise ValueError(f"{shapes}; expected finite numbers [N], as many names, and a level between 0 and 1.")
    rows, chance = [], 1 - (1 - level) / max(1, len(np.unique(names)))
    binary = np.isin(numbers, (0, 1)).all()
    for name in np.unique(names):
        part = numbers[names == name]
        low, high = -math.inf, math.inf
        if binary:
            low, high = binomtest(int(part.sum()), len(part)).proportion_ci(chance, method="wilson")
        elif len(part) > 1:
            low, high = part.mean() + np.array([-1, 1]) * t.isf((1 - chance) / 2, len(part) - 1) * sem(part)
        rows.append(Slice(name.item(), len(part), float(part.mean()), float(low), float(high)))
    return sorted(rows, key=lambda row: row.metric, reverse=not higher_is_better)
