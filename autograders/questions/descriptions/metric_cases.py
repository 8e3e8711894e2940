"""The cases of 03a-metric: each set holds every kind of absence by itself, and every tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cases import Case
from .metric_measures import NO_LABEL, Array, Rows


def logits_for(rng: np.random.Generator, predicted: Array, classes: int, size: float) -> Array:
    """Random logits whose largest in each row, by a tenth at least, is that of the predicted class."""
    logits = rng.uniform(-size, size, (len(predicted), classes))
    for row, label in zip(logits, predicted, strict=True):
        top = row.argmax()
        row[[label, top]] = row[[top, label]]
        row[label] += 0.1
    return logits


def bring_together(logits: Array, predicted: Array, labels: Array) -> None:
    """Give one row neighbouring numbers as its two largest logits; a softmax in the same precision makes them equal.

    It is a row that is predicted rightly, where there is one, so that another prediction changes the accuracy.
    """
    later = predicted > 0
    right = later & (predicted == labels)
    row = int(np.argmax(right if right.any() else later))
    largest, first = predicted[row], predicted[row] - 1
    logits[row] = -1
    logits[row, largest] = 0.01
    logits[row, first] = np.nextafter(logits[row, largest], logits.dtype.type(0))


def extremes(rng: np.random.Generator) -> list[list[float]]:
    """A loss of 0, which is the best there is, and scores that are all 0."""
    return [[float(loss), 0.0, 0.0] for loss in (*rng.uniform(0.1, 2, rng.integers(1, 3)), 0.0, 0.3)]


def far_off(rng: np.random.Generator) -> list[list[float]]:
    """Losses far above any that could be a first best one, and scores that are all 1."""
    return [[float(loss), 1.0, 1.0] for loss in rng.choice([1e6, 1e12, 1e30], 3, replace=False)]


def nearly_equal(rng: np.random.Generator) -> list[list[float]]:
    """The second model is better by less than float32 can tell, and the third is worse."""
    return [[0.5 + worse, 0.6 - worse, 0.7 - worse] for worse in (1e-10, 0.0, float(rng.uniform(0.01, 0.1)))]


def cut(values: Array, sizes: Sequence[int]) -> list[Array]:
    return np.split(values, np.cumsum(sizes)[:-1])


def table(
    rng: np.random.Generator, models: int, tied: int | None = None, first_higher: bool = True
) -> list[list[float]]:
    """What was measured of some models: hundredths, all different but for two best values of one column.

    Losses lie on both sides of 1. Of two models that are tied, the first one has the higher value of the next measure,
    or the lower one: a comparison of whole rows goes on to that measure, and takes the wrong model in one of the two.
    """
    columns = [rng.choice(np.arange(10, high), models, replace=False) / 100 for high in (250, 90, 90)]
    winners = rng.permutation(models)
    for number, column in enumerate(columns):
        best = (column.argmin, column.argmax, column.argmax)[number]()
        winner = winners[number % models]
        column[[winner, best]] = column[[best, winner]]
        if tied == number:
            rival = rng.choice([model for model in range(models) if model != winner])
            column[rival] = column[winner]
            pair = sorted((int(winner), int(rival)))
    if tied is not None:
        following = columns[(tied + 1) % 3]
        following[pair] = np.sort(following[pair])[:: -1 if first_higher else 1]
    return [[float(value) for value in row] for row in zip(*columns, strict=True)]


def case(
    rng: np.random.Generator, kind: str, labels: Any, predicted: Any, sizes: Sequence[int], classes: int, **how: Any
) -> Case:
    """Examples in batches of these sizes. `how`: `dtype` and `size` of logits, `models`, which measure is `tied`."""
    dtype, size = how.get("dtype", np.float64), how.get("size", 3.0)
    logits = logits_for(rng, np.asarray(predicted), classes, size).astype(dtype)
    if how.get("close"):
        bring_together(logits, np.asarray(predicted), np.asarray(labels))
    inputs = {
        "logits": cut(logits, sizes),
        "labels": cut(np.asarray(labels, dtype=np.int64), sizes),
        "measured": how.get("measured")
        or table(rng, how.get("models", 3), how.get("tied"), how.get("first_higher", True)),
    }
    return Case(kind, inputs)


UNEVEN, MISSING, EMPTY = "uneven batches", "some labels are missing", "a batch without labels"
NEVER_PREDICTED, NEVER_A_LABEL, NOWHERE = "a class is never predicted", "a class is no label", "a class occurs nowhere"
NEVER_RIGHT, ONE = "a class is never right", "one example"
EVERY_CLASS, ABSENT = (UNEVEN, MISSING, EMPTY), (NEVER_PREDICTED, NEVER_A_LABEL, NOWHERE, NEVER_RIGHT, ONE)


def examples(
    rng: np.random.Generator, count: int, labels: Sequence[int], predicted: Sequence[int]
) -> tuple[Array, Array]:
    """Labels and predictions of these classes, in random order: each class occurs, is right once and wrong often."""
    shared = [label for label in labels if label in predicted]
    required = [*labels, *shared], [*rng.choice(predicted, len(labels)), *shared]
    rest = count - len(required[0])
    of = np.array([*required[0], *rng.choice(labels, rest)]), np.array([*required[1], *rng.choice(predicted, rest)])
    missed = [label for label in predicted if label not in of[1]]
    of[1][: len(missed)] = missed
    order = rng.permutation(count)
    return of[0][order], of[1][order]


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each kind of absence by itself, uneven batches everywhere, both precisions, and each tie."""
    single = {"dtype": np.float32}
    cases = []
    for higher, sizes in ((True, [4, 9, 1]), (False, [6, 2, 5])):
        drawn = examples(rng, sum(sizes), range(3), range(3))
        cases.append(case(rng, UNEVEN, *drawn, sizes, 3, tied=0, first_higher=higher))
    square = [3, 3, 8]  # batches of as many examples as there are classes
    cases.append(case(rng, UNEVEN, *examples(rng, 14, range(3), range(3)), square, 3, size=18.0, models=5, tied=2))
    sizes = [5, 3, 4]
    cases.append(case(rng, UNEVEN, *examples(rng, 12, range(3), range(3)), sizes, 3, close=True))

    labels, predicted = examples(rng, 16, range(4), range(4))
    sizes, gone = [7, 3, 9], rng.permutation(4)[:2]
    # Two labels are missing in the first batch and one in the last.
    labels = np.concatenate([[NO_LABEL] * 2, labels, [NO_LABEL]])
    predicted = np.concatenate([gone, predicted, gone[:1]])
    cases.append(case(rng, MISSING, labels, predicted, sizes, 4, tied=1, **single))

    labels, predicted = examples(rng, 12, range(3), range(3))
    labels, predicted = np.insert(labels, 5, [NO_LABEL] * 4), np.insert(predicted, 5, rng.integers(0, 3, 4))
    cases.append(case(rng, EMPTY, labels, predicted, [5, 4, 7], 3, tied=1, first_higher=False, close=True, **single))

    classes = rng.permutation(4)
    four, three, two = list(range(4)), sorted(classes[:3]), sorted(classes[:2])
    cases.append(case(rng, NEVER_PREDICTED, *examples(rng, 15, four, three), [8, 1, 6], 4, models=4))
    cases.append(case(rng, NEVER_A_LABEL, *examples(rng, 15, three, four), [3, 10, 2], 4, **single))
    # The highest class: how many there are can be read off neither the labels alone nor the predictions alone.
    cases.append(case(rng, NEVER_A_LABEL, *examples(rng, 12, range(3), range(4)), [5, 7], 4))
    cases.append(case(rng, NEVER_PREDICTED, *examples(rng, 12, range(4), range(3)), [7, 5], 4))
    # The absent class is predicted where there is no label.
    labels, predicted = examples(rng, 13, two, two)
    labels, predicted = np.append(labels, NO_LABEL), np.append(predicted, classes[3])
    cases.append(case(rng, NOWHERE, labels, predicted, [5, 7, 2], 4, models=2, tied=1))

    labels, predicted = examples(rng, 9, two, two)
    labels, predicted = np.append(labels, classes[[2, 0, 2]]), np.append(predicted, classes[[1, 2, 0]])
    cases.append(case(rng, NEVER_RIGHT, labels, predicted, [3, 8, 1], 4))

    has, gets = rng.permutation(3)[:2]
    cases.append(case(rng, ONE, [has], [gets], [1], 3, measured=extremes(rng)))
    cases.append(case(rng, ONE, [has], [has], [1], 3, measured=nearly_equal(rng), **single))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to five batches of one to eight examples, two to five classes, and labels that are there or not.

    Some have twelve batches, twelve classes, many examples or twelve models.
    """
    classes = 12 if rng.integers(7) == 0 else int(rng.integers(2, 6))
    sizes = rng.integers(1, 9, 12 if rng.integers(7) == 0 else rng.integers(1, 6)).tolist()
    if rng.integers(7) == 0:
        sizes[-1] = 1200
    count = sum(sizes)
    has, gets = (rng.permutation(classes)[: rng.integers(1, classes + 1)] for _ in range(2))
    labels, predicted = rng.choice(has, count), rng.choice(gets, count)
    agreeing = rng.random(count) < 0.4
    predicted[agreeing] = labels[agreeing]
    labels[rng.random(count) < rng.choice([0.0, 0.3, 0.8])] = NO_LABEL
    if rng.integers(3) == 0 and len(sizes) > 1:
        labels[: sizes[0]] = NO_LABEL
    if (labels == NO_LABEL).all():
        labels[-1] = predicted[-1]
    how: dict[str, Any] = {"dtype": (np.float32, np.float64)[rng.integers(2)], "size": rng.choice([1.0, 4.0, 19.9])}
    tied = (None, 0, 1, 2)[rng.integers(4)]
    models = 12 if rng.integers(5) == 0 else int(rng.integers(2, 6))
    how |= {"models": models, "tied": tied, "first_higher": bool(rng.integers(2))}
    special = (None, None, None, extremes, nearly_equal, far_off)[rng.integers(6)]
    how |= {"measured": special and special(rng), "close": bool((predicted > 0).any() and rng.integers(2))}
    return case(rng, "domain", labels, predicted, sizes, classes, **how)


def visible(name: str, batches: Sequence[tuple[Any, Any]], measured: Rows) -> Case:
    logits, labels = zip(*batches, strict=True)
    return Case(
        name,
        {
            "logits": [np.array(rows, dtype=np.float32) for rows in logits],
            "labels": [np.array(row, dtype=np.int64) for row in labels],
            "measured": [list(row) for row in measured],
        },
    )
