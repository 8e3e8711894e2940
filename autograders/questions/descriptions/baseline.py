"""03b-baseline: majority accuracy, the loss of the best constant prediction, the loss before training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, given

Labels = np.ndarray
Number = Callable[..., float]
"""A number from the training labels, the validation labels and the number of outputs."""


def majority_accuracy(y_train: Labels, y_val: Labels, classes: int) -> float:
    return float(np.mean(y_val == np.bincount(y_train).argmax()))


def probabilities(y_train: Labels, y_val: Labels) -> np.ndarray:
    """What the training frequencies give to each validation label."""
    return np.bincount(y_train)[y_val] / len(y_train)


def constant_loss(y_train: Labels, y_val: Labels, classes: int) -> float:
    return float(-np.log(probabilities(y_train, y_val)).mean())


def initial_loss(y_train: Labels, y_val: Labels, classes: int) -> float:
    return math.log(classes)


def any_of_the_best(y_train: Labels, y_val: Labels, classes: int) -> float:
    counts = np.bincount(y_train)
    return float(np.mean(counts[y_val] == counts.max()))


def guessed(y_train: Labels, y_val: Labels, classes: int) -> float:
    return float(probabilities(y_train, y_val).mean())


def frequencies_as_logits(y_train: Labels, y_val: Labels, classes: int) -> float:
    logits = np.bincount(y_train, minlength=classes) / len(y_train)
    return float(np.log(np.exp(logits).sum()) - logits[y_val].mean())


def on(number: Number, fitted_on: str, scored_on: str) -> Number:
    """A number with other labels in the places of training and validation."""

    def other(y_train: Labels, y_val: Labels, classes: int) -> float:
        parts = {"train": y_train, "val": y_val, "both": np.concatenate([y_train, y_val])}
        return number(parts[fitted_on], parts[scored_on], classes)

    return other


def times(factor: float, number: Number) -> Number:
    return lambda **inputs: factor * number(**inputs)


def labels_case(rng: np.random.Generator, kind: str, classes: Any, used: Any, train: Any, val: Any) -> Case:
    """`train` and `val` say how often each of the `used` labels occurs, in a random order."""
    y_train, y_val = (rng.permutation(np.repeat(used, sizes)) for sizes in (train, val))
    return Case(kind, {"y_train": y_train, "y_val": y_val, "classes": int(classes)})


def skewed(rng: np.random.Generator, kind: str, classes: int, used: np.ndarray) -> Case:
    """Another class is the most frequent one in each part. In training it has less than half, and is not the median."""
    in_train, in_val = rng.permutation([0, len(used) - 1])
    train, val = rng.integers(5, 9, len(used)), rng.integers(2, 6, len(used))
    train[in_train] = rng.integers(10, 14)
    val[in_val] += rng.integers(12, 20)
    val[in_train] *= kind != "the majority is not in validation"
    return labels_case(rng, kind, classes, used, train, val)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has outputs that never occur, below and above the labels and between them, a tie, single labels."""
    # The numbers of classes are drawn too: with fixed ones, the losses before training could be known beforehand.
    few, many = rng.permutation(np.arange(2, 7)), rng.permutation(np.arange(8, 13))
    gaps = [np.sort(1 + rng.permutation(n - 2)[: n // 2]) for n in many[:2]]
    label = rng.integers(1, 4, 1)
    rare = rng.permutation(many[4])[:4]
    cases = [
        labels_case(rng, "balanced", few[0], np.arange(few[0]), 12, 5),
        *(skewed(rng, "skewed", n, np.arange(n)) for n in (few[1] + 2, many[2])),
        skewed(rng, "the majority is not in validation", many[3], np.arange(many[3])),
        *(skewed(rng, "unused outputs", n, used) for n, used in zip(many[:2], gaps, strict=True)),
        labels_case(rng, "a tie", 13, rng.permutation(np.arange(1, 12))[:4], [8, 8, 3, 8], [4, 4, 6, 4]),
        labels_case(rng, "a single label in each part", few[2] + 4, label, 1, 1),
        # A number that is added to each frequency shows only where one is small.
        labels_case(rng, "a class that is rare in training", many[4], rare, [1, 17000, 22000, 20000], [4, 3, 2, 5]),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Up to twelve outputs or 2,000, of which any may be unused, and few labels or, in one part, many.

    Ties in training are ties in validation. In some cases the majority lies above every validation label. Among many
    training labels one class can have a few alone.
    """
    classes = 2000 if rng.integers(7) == 0 else rng.integers(2, 13)
    used = rng.permutation(classes)[: rng.integers(1, min(classes, 12) + 1)]
    train, val = rng.integers(1, 5, len(used)), rng.integers(0, 4, len(used))
    val[train == train.max()] = rng.integers(1, 4)
    kind = "domain"
    if len(used) > 1 and rng.integers(4) == 0:
        kind, used = "the majority above all validation labels", np.sort(used)
        train[-1], val[-1], val[0] = 5, 0, max(val[0], 1)
    longer, rarest = rng.integers(7), train.argmin()
    if longer == 0 and train[rarest] < train.max():
        kind, val[rarest], few = "a class that is rare in training", max(val[rarest], 1), train[rarest]
        train = 1200 * train
        train[rarest] = few
    val = val * (1200 if longer == 1 else 1)
    return labels_case(rng, kind, classes, used, train, val)


ACCURACY, CONSTANT, INITIAL = (f"{name}.{name}" for name in ("majority_accuracy", "constant_loss", "initial_loss"))


def mistake(name: str, explanation: str, look_at: str, **numbers: Number) -> Mistake:
    """One that shows in any of the numbers that it concerns."""
    first, *further = (given({f"{field}.{field}": number}) for field, number in numbers.items())
    return Mistake(name, explanation, look_at, first, also=tuple(further))


def visible(name: str, y_train: list[int], y_val: list[int], classes: int) -> Case:
    return Case(name, {"y_train": np.array(y_train), "y_val": np.array(y_val), "classes": classes})


QUESTION = Description(
    id="03b-baseline",
    parts=(
        Graded("majority_accuracy", 1, (ACCURACY,)),
        Graded("constant_loss", 2, (CONSTANT,)),
        Graded("initial_loss", 1, (INITIAL,)),
    ),
    reference=given({ACCURACY: majority_accuracy, CONSTANT: constant_loss, INITIAL: initial_loss}),
    mistakes=(
        Mistake(
            "constant-answer",
            "the same numbers came back for every set of labels",
            "where each number comes from: all three depend on the arguments",
            constant=(ACCURACY, CONSTANT, INITIAL),
        ),
        mistake(
            "peeks-at-validation",
            "the baseline was fitted on the validation labels: it knows what it is measured on",
            "from which labels the frequencies come, and on which they are scored",
            majority_accuracy=on(majority_accuracy, "val", "val"),
            constant_loss=on(constant_loss, "val", "val"),
        ),
        mistake(
            "scored-on-training",
            "the baseline was measured on the labels that it was fitted on",
            "on which labels a baseline is scored",
            majority_accuracy=on(majority_accuracy, "train", "train"),
            constant_loss=on(constant_loss, "train", "train"),
        ),
        mistake(
            "both-parts",
            "the baseline was fitted on both parts together, and so on the labels that it is measured on",
            "from which labels the frequencies come",
            majority_accuracy=on(majority_accuracy, "both", "val"),
            constant_loss=on(constant_loss, "both", "val"),
        ),
        mistake(
            "chance-level",
            "guessing evenly was taken for the baseline; with skewed classes a constant guess does better",
            "which class you would always predict, and how often that is right",
            majority_accuracy=lambda y_train, y_val, classes: 1 / classes,
            constant_loss=initial_loss,
        ),
        mistake(
            "log-base-2",
            "the losses are in bits; CrossEntropyLoss uses the natural logarithm",
            "the base of the logarithm: the loss of two even classes is 0.693",
            constant_loss=times(1 / math.log(2), constant_loss),
            initial_loss=times(1 / math.log(2), initial_loss),
        ),
        mistake(
            "log-base-10",
            "the losses use log10; CrossEntropyLoss uses the natural logarithm",
            "the base of the logarithm: the loss of two even classes is 0.693",
            constant_loss=times(1 / math.log(10), constant_loss),
            initial_loss=times(1 / math.log(10), initial_loss),
        ),
        mistake(
            "classes-seen",
            "the classes that occur were counted, not the network's outputs",
            "over how many outputs an untrained network spreads its probability",
            initial_loss=lambda y_train, y_val, classes: math.log(len(np.unique(y_train))),
        ),
        mistake(
            "largest-label",
            "the number of outputs was taken from the largest label; the last outputs may never occur",
            "which argument says how many outputs there are",
            initial_loss=lambda y_train, y_val, classes: math.log(y_train.max() + 1),
        ),
        mistake(
            "percent",
            "the accuracy is in percent; the question asks for a fraction",
            "the range of the accuracy: 0 to 1",
            majority_accuracy=times(100, majority_accuracy),
        ),
        mistake(
            "error-rate",
            "the share of wrong predictions was returned; the accuracy is the share of right ones",
            "the direction of the comparison that you average",
            majority_accuracy=lambda **inputs: 1 - majority_accuracy(**inputs),
        ),
        mistake(
            "all-of-a-tie",
            "of equally frequent classes all were predicted at once",
            "how many different predictions a majority baseline makes",
            majority_accuracy=any_of_the_best,
        ),
        mistake(
            "guessed-by-frequency",
            "this is the accuracy of guessing at random by the training frequencies",
            "how many different predictions a majority baseline makes",
            majority_accuracy=guessed,
        ),
        mistake(
            "summed",
            "the losses of the examples were added; the question asks for their mean",
            "how the loss changes when every validation label comes twice",
            constant_loss=lambda y_train, y_val, classes: len(y_val) * constant_loss(y_train, y_val, classes),
        ),
        mistake(
            "classes-averaged",
            "each class of the validation part counts once, however frequent it is",
            "over what the mean of the cross-entropy is taken",
            constant_loss=lambda y_train, y_val, classes: constant_loss(y_train, np.unique(y_val), classes),
        ),
        mistake(
            "log-of-mean",
            "the logarithm was taken of the mean probability; the mean is taken of the logarithms",
            "the order of the mean and the logarithm",
            constant_loss=lambda **inputs: -math.log(guessed(**inputs)),
        ),
        mistake(
            "frequencies-as-logits",
            "the frequencies went through a softmax: F.cross_entropy expects logits",
            "what cross_entropy does to its first argument before it takes a logarithm",
            constant_loss=frequencies_as_logits,
        ),
        mistake(
            "one-added",
            "one was added to every count: these are not the training frequencies",
            "whether a count of zero can be asked for here",
            constant_loss=lambda y_train, y_val, classes: constant_loss(
                np.concatenate([y_train, np.arange(classes)]), y_val, classes
            ),
        ),
        mistake(
            "sign-turned",
            "the loss is below 0: the sign is missing before the logarithm",
            "the logarithm of a probability, and the sign that a loss has",
            constant_loss=times(-1, constant_loss),
            initial_loss=times(-1, initial_loss),
        ),
    ),
    visible=(
        visible("balanced: labels 0, 1 and 0, 1", [0, 1], [0, 1], 2),
        visible("skewed: trained on 0, 0, 0, 1, measured on 0, 1, 1, 1, 1", [0, 0, 0, 1], [0, 1, 1, 1, 1], 2),
        visible("the same with three outputs, one of them never used", [0, 0, 0, 1], [0, 1, 1, 1, 1], 3),
        visible("a tie of 3 and 5, and unused outputs", [3, 5, 5, 2, 3, 5, 3], [3, 3, 5, 5, 2, 2, 2], 8),
    ),
    draw=draw,
    domain=domain,
)
