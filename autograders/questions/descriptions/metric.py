"""03a-metric: uneven batches, labels that are missing, classes that one side or both lack, and ties between models.

Most mistakes either combine what was measured batch by batch, or take the mean over other classes, or of something else
than F1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given
from .metric_cases import ABSENT, EVERY_CLASS, domain, draw, visible
from .metric_measures import (
    ACCURACY,
    F1,
    LOSS,
    MODELS,
    NAN,
    Examples,
    Measure,
    Rows,
    accuracy,
    batches_of,
    by_support,
    either,
    f1_of,
    first_best,
    joined,
    last_best,
    losses,
    macro_f1,
    mean_loss,
    of_means,
    of_second_class,
    over,
    overlap,
    precision,
    preferred,
    recall,
    undefined,
    with_absent,
    with_unlabelled,
)

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
    labelled = examples.known
    exponentials = np.exp(labelled.logits - labelled.logits.max(axis=1, keepdims=True))
    return mean_loss(Examples(exponentials / exponentials.sum(axis=1, keepdims=True), labelled.labels))


def in_single_precision(measure: Measure) -> Measure:
    """Of logits rounded to float32, where neighbouring float64 numbers are equal."""
    return lambda examples: measure(Examples(examples.logits.astype(np.float32).astype(np.float64), examples.labels))


def choice(change: Callable[[Rows], Any]) -> Simulation:
    return given({MODELS: lambda measured, **_: change(measured)})


def reference(case: Case) -> dict[str, Any]:
    examples = joined(batches_of(case))
    measured = {LOSS: mean_loss(examples), ACCURACY: accuracy(examples), F1: macro_f1(examples)}
    return {**measured, MODELS: preferred(case.inputs["measured"])}


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
            "single-precision",
            "float64 logits were rounded to float32, which makes neighbouring ones equal and another class the first",
            "what the tensor in which you collect the logits can hold",
            whole(accuracy=in_single_precision(accuracy), f1=in_single_precision(macro_f1)),
            hidden_only=True,
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
            whole(f1=over(lambda tallies: tallies.labelled)),
        ),
        Mistake(
            "predictions-only",
            "a class that is a label but never predicted was left out: its F1 is 0, and it counts",
            "which classes the question takes the mean over",
            whole(f1=over(lambda tallies: tallies.predicted)),
        ),
        Mistake(
            "in-both-only",
            "a class without a correct prediction was left out, or made the mean nan: its F1 is 0, and it counts",
            "precision and recall of a class that is never predicted, or never right: which of them is 0/0",
            whole(f1=over(lambda tallies: tallies.both)),
            also=(whole(f1=undefined), whole(f1=over(lambda tallies: tallies.predicted * tallies.labelled))),
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
            whole(f1=over(lambda tallies: tallies.labelled, recall)),
            also=(whole(f1=over(either, recall)),),
        ),
        Mistake(
            "precision",
            "this is the mean precision: examples of a class that were missed do not count against it",
            "the denominator of F1",
            whole(f1=over(lambda tallies: tallies.predicted, precision)),
            also=(whole(f1=over(either, precision)),),
        ),
        Mistake(
            "two-missing",
            "the correct predictions count once in the denominator: this is the overlap of the two sets, not F1",
            "the formula of F1, with its factors of 2",
            whole(f1=over(either, overlap)),
            also=(whole(f1=over(either, lambda tallies: f1_of(tallies) / 2)),),
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
