"""What 03a-metric measures, counted class by class over the whole set, and what is taken for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cases import Case

Array = np.ndarray
LOSS, ACCURACY, F1, MODELS = "measure.loss", "measure.accuracy", "measure.macro F1", "preferred.models"
NO_LABEL, NAN = -100, float("nan")


class Examples(NamedTuple):
    """Logits [N, C] in float64 and labels [N]."""

    logits: Array
    labels: Array

    @property
    def known(self) -> Examples:
        """Those that have a label."""
        return Examples(self.logits[self.labels != NO_LABEL], self.labels[self.labels != NO_LABEL])

    @property
    def predicted(self) -> Array:
        return np.asarray(self.logits.argmax(axis=1))


def batches_of(case: Case) -> list[Examples]:
    pairs = zip(case.inputs["logits"], case.inputs["labels"], strict=True)
    return [Examples(logits.astype(np.float64), labels) for logits, labels in pairs]


def joined(batches: Sequence[Examples]) -> Examples:
    return Examples(*(np.concatenate(arrays) for arrays in zip(*batches, strict=True)))


Measure = Callable[[Examples], float]


def losses(examples: Examples) -> Array:
    """The cross-entropies of examples that all have a label."""
    logits, labels = examples
    top = logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return np.asarray(log_sums - logits[np.arange(len(labels)), labels])


def mean_loss(examples: Examples) -> float:
    return float(losses(examples.known).mean())


def accuracy(examples: Examples) -> float:
    return float((examples.known.predicted == examples.known.labels).mean())


class Counts(NamedTuple):
    """For each class: examples that have and get it, that get it, and that have it. [C]"""

    both: Array
    predicted: Array
    labelled: Array


def counts(examples: Examples, predicted: Array | None = None) -> Counts:
    labelled = examples.known
    got = labelled.predicted if predicted is None else predicted
    classes = range(examples.logits.shape[1])
    hits = labelled.labels[labelled.predicted == labelled.labels]
    tallies = [[int((values == label).sum()) for label in classes] for values in (hits, got, labelled.labels)]
    return Counts(*(np.array(tally, dtype=np.float64) for tally in tallies))


def f1_of(tallies: Counts) -> Array:
    """F1 of each class; NaN for one that nobody has and nobody gets."""
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * tallies.both / (tallies.predicted + tallies.labelled))


def macro_f1(examples: Examples) -> float:
    return float(np.nanmean(f1_of(counts(examples))))


# What each measure is when another mean is taken over the classes, or over something else than F1.


def with_absent(value: float) -> Measure:
    return lambda examples: float(np.nan_to_num(f1_of(counts(examples)), nan=value).mean())


def over(chosen: Callable[[Counts], Array], of: Callable[[Counts], Array] = f1_of) -> Measure:
    """The mean over some classes only; NaN where there are none."""

    def measure(examples: Examples) -> float:
        tallies = counts(examples)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = of(tallies)[chosen(tallies).astype(bool)]
        return float(values.mean()) if len(values) else NAN

    return measure


def either(tallies: Counts) -> Array:
    return np.asarray(tallies.predicted + tallies.labelled > 0)


def recall(tallies: Counts) -> Array:
    return np.where(tallies.labelled > 0, tallies.both / tallies.labelled, 0.0)


def precision(tallies: Counts) -> Array:
    return np.where(tallies.predicted > 0, tallies.both / tallies.predicted, 0.0)


def overlap(tallies: Counts) -> Array:
    return np.asarray(tallies.both / (tallies.predicted + tallies.labelled - tallies.both))


def undefined(examples: Examples) -> float:
    """Precision or recall is 0/0, or both are 0, for a class that no example has and gets."""
    return macro_f1(examples) if counts(examples).both.all() else NAN


def of_means(examples: Examples) -> float:
    tallies = counts(examples)
    with np.errstate(invalid="ignore", divide="ignore"):
        p, r = (float(of(tallies)[either(tallies)].mean()) for of in (precision, recall))
    return 2 * p * r / (p + r) if p + r else 0.0


def by_support(examples: Examples) -> float:
    tallies = counts(examples)
    return float(np.nansum(f1_of(tallies) * tallies.labelled) / tallies.labelled.sum())


def with_unlabelled(examples: Examples) -> float:
    """Predictions for examples without a label count as wrong ones."""
    return float(np.nanmean(f1_of(counts(examples, examples.predicted))))


def of_second_class(examples: Examples) -> float:
    return float(np.nan_to_num(f1_of(counts(examples))[1]))


# Which model each measure prefers.

Rows = Sequence[Sequence[float]]


def first_best(column: Sequence[float], best: Callable[[Sequence[float]], float]) -> int:
    return list(column).index(best(column))


def last_best(column: Sequence[float], best: Callable[[Sequence[float]], float]) -> int:
    return len(column) - 1 - list(column)[::-1].index(best(column))


def preferred(measured: Rows, best: Sequence[Any] = (min, max, max), ties: Sequence[Any] = (first_best,) * 3) -> Any:
    columns = zip(*measured, strict=True)
    return [find(column, pick) for column, pick, find in zip(columns, best, ties, strict=True)]
