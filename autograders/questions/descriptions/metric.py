"""03a-metric: uneven batches, labels that are missing, classes that one side or both lack, and ties between models.

The reference counts labels and predictions class by class, over the whole set. Most mistakes either combine what was
measured batch by batch, or differ from it in the classes that the mean of F1 is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

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
    known = examples.known
    got = known.predicted if predicted is None else predicted
    classes = range(examples.logits.shape[1])
    hits = known.labels[known.predicted == known.labels]
    tallies = [[int((values == one).sum()) for one in classes] for values in (hits, got, known.labels)]
    return Counts(*(np.array(tally, dtype=np.float64) for tally in tallies))


def f1_of(found: Counts) -> Array:
    """F1 of each class; NaN for one that nobody has and nobody gets."""
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * found.both / (found.predicted + found.labelled))


def macro_f1(examples: Examples) -> float:
    return float(np.nanmean(f1_of(counts(examples))))


# What each measure is when another mean is taken over the classes, or over something else than F1.


def with_absent(value: float) -> Measure:
    return lambda examples: float(np.nan_to_num(f1_of(counts(examples)), nan=value).mean())


def over(chosen: Callable[[Counts], Array], of: Callable[[Counts], Array] = f1_of) -> Measure:
    """The mean over some classes only; NaN where there are none."""

    def measure(examples: Examples) -> float:
        found = counts(examples)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = of(found)[chosen(found).astype(bool)]
        return float(values.mean()) if len(values) else NAN

    return measure


def either(found: Counts) -> Array:
    return np.asarray(found.predicted + found.labelled > 0)


def recall(found: Counts) -> Array:
    return np.where(found.labelled > 0, found.both / found.labelled, 0.0)


def precision(found: Counts) -> Array:
    return np.where(found.predicted > 0, found.both / found.predicted, 0.0)


def overlap(found: Counts) -> Array:
    return np.asarray(found.both / (found.predicted + found.labelled - found.both))


def undefined(examples: Examples) -> float:
    """Precision or recall is 0/0, or both are 0, for a class that no example has and gets."""
    return macro_f1(examples) if counts(examples).both.all() else NAN


def of_means(examples: Examples) -> float:
    found = counts(examples)
    with np.errstate(invalid="ignore", divide="ignore"):
        p, r = (float(of(found)[either(found)].mean()) for of in (precision, recall))
    return 2 * p * r / (p + r) if p + r else 0.0


def by_support(examples: Examples) -> float:
    found = counts(examples)
    return float(np.nansum(f1_of(found) * found.labelled) / found.labelled.sum())


def with_unlabelled(examples: Examples) -> float:
    """Predictions for examples without a label count as wrong ones."""
    return float(np.nanmean(f1_of(counts(examples, examples.predicted))))


def of_second_class(examples: Examples) -> float:
    return float(np.nan_to_num(f1_of(counts(examples))[1]))


# What is combined batch by batch.

MEASURES: Mapping[str, Measure] = {LOSS: mean_loss, ACCURACY: accuracy, F1: macro_f1}


def from_batches(
    path: str, weight: Callable[[Examples], float], empty: float | None = None, divided: bool = True
) -> Simulation:
    """A weighted mean, or sum, of the batches' values. A batch without labels is left out, or has the value `empty`."""

    def simulate(case: Case) -> dict[str, float]:
        total = weights = 0.0
        for batch in batches_of(case):
            if len(batch.known.labels) or empty is not None:
                value = MEASURES[path](batch) if len(batch.known.labels) else float(empty or 0.0)
                total, weights = total + weight(batch) * value, weights + weight(batch)
        return {path: total / weights if divided else total}

    return simulate


def alike(batch: Examples) -> float:
    return 1.0


def rows(batch: Examples) -> float:
    return float(len(batch.labels))


def labelled(batch: Examples) -> float:
    return float(len(batch.known.labels))


def whole(**measures: Measure) -> Simulation:
    """Measures of the whole set, by the last word of their field."""
    paths = {"loss": LOSS, "accuracy": ACCURACY, "f1": F1}
    return lambda case: {paths[name]: measure(joined(batches_of(case))) for name, measure in measures.items()}


def of_last_batch(*paths: str) -> Simulation:
    def simulate(case: Case) -> dict[str, float]:
        last = batches_of(case)[-1]
        return {path: MEASURES[path](last) if len(last.known.labels) else NAN for path in paths}

    return simulate


def divided_by_all(measure: Measure) -> Measure:
    return lambda examples: measure(examples) * len(examples.known.labels) / len(examples.labels)


def summed(examples: Examples) -> float:
    return float(losses(examples.known).sum())


def softmax_twice(examples: Examples) -> float:
    known = examples.known
    exponentials = np.exp(known.logits - known.logits.max(axis=1, keepdims=True))
    return mean_loss(Examples(exponentials / exponentials.sum(axis=1, keepdims=True), known.labels))


# Which model each measure prefers.

Rows = Sequence[Sequence[float]]


def first_best(column: Sequence[float], best: Callable[[Sequence[float]], float]) -> int:
    return list(column).index(best(column))


def last_best(column: Sequence[float], best: Callable[[Sequence[float]], float]) -> int:
    return len(column) - 1 - list(column)[::-1].index(best(column))


def preferred(measured: Rows, best: Sequence[Any] = (min, max, max), ties: Sequence[Any] = (first_best,) * 3) -> Any:
    columns = zip(*measured, strict=True)
    return [find(column, pick) for column, pick, find in zip(columns, best, ties, strict=True)]


def choice(change: Callable[[Rows], Any]) -> Simulation:
    return given({MODELS: lambda measured, **_: change(measured)})


def reference(case: Case) -> dict[str, Any]:
    return {**whole(loss=mean_loss, accuracy=accuracy, f1=macro_f1)(case), MODELS: preferred(case.inputs["measured"])}


# Cases.


def logits_for(rng: np.random.Generator, predicted: Array, classes: int, size: float) -> Array:
    """Random logits whose largest in each row, by a tenth at least, is that of the predicted class."""
    logits = rng.uniform(-size, size, (len(predicted), classes))
    for row, one in zip(logits, predicted, strict=True):
        top = row.argmax()
        row[[one, top]] = row[[top, one]]
        row[one] += 0.1
    return logits


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
            other = rng.choice([model for model in range(models) if model != winner])
            column[other] = column[winner]
            pair = sorted((int(winner), int(other)))
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
    inputs = {
        "logits": cut(logits, sizes),
        "labels": cut(np.asarray(labels, dtype=np.int64), sizes),
        "measured": table(rng, how.get("models", 3), how.get("tied"), how.get("first_higher", True)),
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
    shared = [one for one in labels if one in predicted]
    some = [*labels, *shared], [*rng.choice(predicted, len(labels)), *shared]
    rest = count - len(some[0])
    of = np.array([*some[0], *rng.choice(labels, rest)]), np.array([*some[1], *rng.choice(predicted, rest)])
    missed = [one for one in predicted if one not in of[1]]
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

    labels, predicted = examples(rng, 16, range(4), range(4))
    sizes, gone = [7, 3, 9], rng.permutation(4)[:2]
    # Two labels are missing in the first batch and one in the last.
    labels = np.concatenate([[NO_LABEL] * 2, labels, [NO_LABEL]])
    predicted = np.concatenate([gone, predicted, gone[:1]])
    cases.append(case(rng, MISSING, labels, predicted, sizes, 4, tied=1, **single))

    labels, predicted = examples(rng, 12, range(3), range(3))
    labels, predicted = np.insert(labels, 5, [NO_LABEL] * 4), np.insert(predicted, 5, rng.integers(0, 3, 4))
    cases.append(case(rng, EMPTY, labels, predicted, [5, 4, 7], 3, tied=1, first_higher=False, **single))

    classes = rng.permutation(4)
    some, three, two = list(range(4)), sorted(classes[:3]), sorted(classes[:2])
    cases.append(case(rng, NEVER_PREDICTED, *examples(rng, 15, some, three), [8, 1, 6], 4, models=4))
    cases.append(case(rng, NEVER_A_LABEL, *examples(rng, 15, three, some), [3, 10, 2], 4, **single))
    # The absent class is predicted where there is no label.
    labels, predicted = examples(rng, 13, two, two)
    labels, predicted = np.append(labels, NO_LABEL), np.append(predicted, classes[3])
    cases.append(case(rng, NOWHERE, labels, predicted, [5, 7, 2], 4, models=2, tied=1))

    labels, predicted = examples(rng, 9, two, two)
    labels, predicted = np.append(labels, classes[[2, 0, 2]]), np.append(predicted, classes[[1, 2, 0]])
    cases.append(case(rng, NEVER_RIGHT, labels, predicted, [3, 8, 1], 4))

    has, gets = rng.permutation(3)[:2]
    cases.append(case(rng, ONE, [has], [gets], [1], 3))
    cases.append(case(rng, ONE, [has], [has], [1], 3, **single))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to five batches of one to eight examples, two to five classes, and labels that are there or not."""
    classes, sizes = int(rng.integers(2, 6)), rng.integers(1, 9, rng.integers(1, 6)).tolist()
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
    how: dict[str, Any] = {"dtype": (np.float32, np.float64)[rng.integers(2)], "size": rng.choice([1.0, 4.0, 19.0])}
    tied = (None, 0, 1, 2)[rng.integers(4)]
    how |= {"models": int(rng.integers(2, 6)), "tied": tied, "first_higher": bool(rng.integers(2))}
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


QUESTION = Description(
    id="03a-metric",
    parts=(
        Graded("loss and accuracy", 1, (LOSS, ACCURACY)),
        Graded("macro F1", 1, (F1,), on=EVERY_CLASS),
        Graded("macro F1, classes absent", 1, (F1,), on=ABSENT),
        Graded("preferred", 1, (MODELS,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "mean-of-batches",
            "the batches' means were averaged, so an example of a small batch counts more than one of a large batch",
            "how many labelled examples each batch's mean stands for",
            from_batches(LOSS, alike),
            also=(
                from_batches(LOSS, alike, NAN),
                from_batches(ACCURACY, alike),
                from_batches(ACCURACY, alike, NAN),
                from_batches(ACCURACY, alike, 0.0),
            ),
        ),
        Mistake(
            "weighted-by-rows",
            "each batch's mean was multiplied by the number of its examples, those without a label included",
            "how many examples the mean of `cross_entropy` is taken over in a batch with missing labels",
            from_batches(LOSS, rows),
            also=(from_batches(LOSS, rows, NAN), from_batches(ACCURACY, rows), from_batches(ACCURACY, rows, NAN)),
        ),
        Mistake(
            "unlabelled-counted",
            "the sum was divided by the number of all examples, those without a label included",
            "what the sum is divided by at the end, when labels are missing",
            whole(loss=divided_by_all(mean_loss)),
            also=(
                whole(accuracy=divided_by_all(accuracy)),
                whole(loss=divided_by_all(mean_loss), accuracy=divided_by_all(accuracy)),
            ),
        ),
        Mistake(
            "empty-batch",
            "one batch without labels made the result nan: the mean of no loss is 0/0, and 0 times nan is nan",
            "what `cross_entropy` returns for a batch in which every label is missing",
            from_batches(LOSS, labelled, NAN),
            also=(from_batches(ACCURACY, labelled, NAN),),
        ),
        Mistake(
            "not-divided",
            "the loss is a sum, which grows with the validation set",
            "what the sum is divided by at the end",
            whole(loss=summed),
            also=(from_batches(LOSS, alike, divided=False),),
        ),
        Mistake(
            "last-batch-only",
            "only the last batch is in the result",
            "what is carried from one pass of the loop to the next",
            of_last_batch(LOSS, ACCURACY, F1),
            also=tuple(of_last_batch(path) for path in (LOSS, ACCURACY, F1)),
        ),
        Mistake(
            "softmax-twice",
            "the cross-entropy was computed from probabilities: `cross_entropy` applies a softmax by itself",
            "what the loss function expects: logits or probabilities",
            whole(loss=softmax_twice),
        ),
        Mistake(
            "f1-of-batches",
            "F1 was computed batch by batch and averaged: F1 of the whole set is not a mean over batches",
            "what has to be added up over the batches before anything is divided",
            from_batches(F1, alike),
            also=(from_batches(F1, labelled), from_batches(F1, rows), from_batches(F1, alike, 0.0)),
        ),
        Mistake(
            "micro-f1",
            "the macro F1 is equal to the accuracy: the counts of all classes were added up before the division",
            "how often you divide: once for each class, or once in all",
            whole(f1=accuracy),
        ),
        Mistake(
            "weighted-f1",
            "each class counts by its number of labels: the macro F1 gives a rare class the same weight",
            "the weights of the classes in the mean",
            whole(f1=by_support),
        ),
        Mistake(
            "absent-as-zero",
            "a class that is neither a label nor a prediction was counted with F1 = 0",
            "which classes the question takes the mean over",
            whole(f1=with_absent(0.0)),
        ),
        Mistake(
            "absent-as-one",
            "a class that is neither a label nor a prediction was counted with F1 = 1",
            "which classes the question takes the mean over",
            whole(f1=with_absent(1.0)),
        ),
        Mistake(
            "labels-only",
            "a class that is predicted but never a label was left out: its F1 is 0, and it counts",
            "which classes the question takes the mean over",
            whole(f1=over(lambda found: found.labelled)),
        ),
        Mistake(
            "predictions-only",
            "a class that is a label but never predicted was left out: its F1 is 0, and it counts",
            "which classes the question takes the mean over",
            whole(f1=over(lambda found: found.predicted)),
        ),
        Mistake(
            "in-both-only",
            "a class without a correct prediction was left out, or made the mean nan: its F1 is 0, and it counts",
            "precision and recall of a class that is never predicted, or never right: which of them is 0/0",
            whole(f1=over(lambda found: found.both)),
            also=(whole(f1=undefined), whole(f1=over(lambda found: found.predicted * found.labelled))),
        ),
        Mistake(
            "unlabelled-predicted",
            "predictions for examples without a label count as wrong ones in F1",
            "which examples are left when you count the predictions of a class",
            whole(f1=with_unlabelled),
        ),
        Mistake(
            "f1-of-means",
            "F1 was computed from the mean precision and the mean recall, not for each class by itself",
            "the order of the two steps: the formula of F1, and the mean over classes",
            whole(f1=of_means),
        ),
        Mistake(
            "recall",
            "this is the mean recall: predictions of a class that are wrong do not count against it",
            "the denominator of F1",
            whole(f1=over(lambda found: found.labelled, recall)),
            also=(whole(f1=over(either, recall)),),
        ),
        Mistake(
            "precision",
            "this is the mean precision: examples of a class that were missed do not count against it",
            "the denominator of F1",
            whole(f1=over(lambda found: found.predicted, precision)),
            also=(whole(f1=over(either, precision)),),
        ),
        Mistake(
            "two-missing",
            "the correct predictions count once in the denominator: this is the overlap of the two sets, not F1",
            "the formula of F1, with its factors of 2",
            whole(f1=over(either, overlap)),
            also=(whole(f1=over(either, lambda found: f1_of(found) / 2)),),
        ),
        Mistake(
            "second-class-only",
            "this is the F1 of class 1 alone",
            "the mean over the classes",
            whole(f1=of_second_class),
        ),
        Mistake(
            "exchanged",
            "accuracy and macro F1 were returned in the wrong order",
            "the order of the three numbers in the question",
            whole(accuracy=macro_f1, f1=accuracy),
        ),
        Mistake(
            "highest-everywhere",
            "the model with the highest loss was chosen",
            "for each of the three measures, whether high or low is better",
            choice(partial(preferred, best=(max, max, max))),
        ),
        Mistake(
            "lowest-everywhere",
            "the model with the lowest metric was chosen",
            "for each of the three measures, whether high or low is better",
            choice(partial(preferred, best=(min, min, min))),
        ),
        Mistake(
            "last-of-equals",
            "of models that are equally good, the last one was chosen",
            "what the comparison does with two equal values",
            choice(partial(preferred, ties=(last_best,) * 3)),
            also=(
                choice(partial(preferred, ties=(last_best, first_best, first_best))),
                choice(partial(preferred, ties=(first_best, last_best, last_best))),
            ),
        ),
        Mistake(
            "one-for-all",
            "the model that one measure prefers was returned for all three",
            "whether each of the three indices comes from its own column",
            choice(lambda measured: [preferred(measured)[0]] * 3),
            also=(
                choice(lambda measured: [preferred(measured)[1]] * 3),
                choice(lambda measured: [preferred(measured)[2]] * 3),
            ),
        ),
        Mistake(
            "counted-from-one",
            "each index is one too large: the first model has the index 0",
            "how Python counts the entries of a list",
            choice(lambda measured: [index + 1 for index in preferred(measured)]),
        ),
    ),
    visible=(
        visible(
            "two batches of three and one; each measure prefers another model",
            [([[2, 0], [2, 0], [0, 1]], [0, 0, 0]), ([[0, 3]], [1])],
            [(0.9, 0.8, 0.5), (0.4, 0.7, 0.6), (1.2, 0.75, 0.7)],
        ),
        visible(
            "three classes, each of them right once; the first and the last model have equal accuracies",
            [
                ([[3, 0, 1], [0, 2, 1], [1, 0, 2], [2, 0, 1], [2, 1, 0]], [0, 1, 2, 1, 2]),
                ([[0, 1, 2], [3, 1, 0]], [2, 0]),
            ],
            [(0.5, 0.8, 0.7), (0.6, 0.7, 0.9), (0.7, 0.8, 0.8)],
        ),
        visible(
            "two labels are missing; two models have equal losses",
            [([[2, 0, 1], [0, 2, 1], [0, 1, 2], [0, 1, 3]], [0, 1, -100, -100]), ([[0, 1, 2], [2, 1, 0]], [2, 1])],
            [(1.5, 0.2, 0.3), (0.3, 0.1, 0.2), (0.3, 0.4, 0.1)],
        ),
        visible(
            "the first batch has no labels; two models have equal macro F1",
            [([[1, 0], [0, 1]], [-100, -100]), ([[2, 0], [0, 2], [1, 0]], [0, 1, 1]), ([[0, 2]], [1])],
            [(0.8, 0.6, 0.5), (0.7, 0.5, 0.5)],
        ),
        visible(
            "class 2 is never predicted",
            [([[2, 0, 1], [0, 2, 1], [2, 0, 1]], [0, 1, 2]), ([[0, 3, 1], [1, 2, 0]], [1, 0])],
            [(0.2, 0.9, 0.9), (0.3, 0.8, 0.8)],
        ),
        visible(
            "class 2 is predicted and never a label",
            [([[2, 0, 1], [0, 2, 1], [0, 1, 2]], [0, 1, 1]), ([[3, 0, 1], [2, 1, 0]], [0, 1])],
            [(0.3, 0.8, 0.8), (0.2, 0.9, 0.9), (0.9, 0.7, 0.4)],
        ),
        visible(
            "class 2 is predicted only where the label is missing, class 3 nowhere",
            [([[2, 0, 1, 0], [0, 2, 1, 0], [0, 1, 2, 0]], [0, 1, -100]), ([[3, 0, 1, 0], [2, 1, 0, 0]], [0, 1])],
            [(0.3, 0.8, 0.7), (0.2, 0.9, 0.6), (0.9, 0.7, 0.9)],
        ),
        visible(
            "class 2 is a label and a prediction, and never right",
            [([[2, 0, 1], [0, 2, 1], [0, 2, 1]], [0, 1, 2]), ([[0, 2, 3], [2, 1, 0]], [1, 0])],
            [(0.3, 0.8, 0.8), (0.2, 0.9, 0.9)],
        ),
        visible("one example, wrong", [([[2, 0, 1]], [2])], [(0.5, 0.5, 0.5), (0.5, 0.5, 0.5)]),
    ),
    draw=draw,
    domain=domain,
)
