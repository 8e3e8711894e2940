"""03c-stable: moderate logits, logits of a thousand, class weights, label smoothing, and weights of positive labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
CLASSES, BINARY = "classes.value", "binary.value"
PLAIN, LARGE = "moderate logits", "logits of a thousand"
WEIGHTED, SMOOTHED, BOTH = "weights", "label smoothing", "weights and label smoothing"


log_softmax: Callable[[Array], Array] = partial(scipy.special.log_softmax, axis=1)
softmax: Callable[[Array], Array] = partial(scipy.special.softmax, axis=1)


def overflowing(logits: Array) -> Array:
    return np.log(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))


def zero_times_infinity(logits: Array) -> Array:
    """The logarithms of probabilities, all nan where one of them is minus infinity, even if its target is 0."""
    logs = np.log(softmax(logits))
    return logs if np.isfinite(logs).all() else np.full_like(logs, np.nan)


def smoothed(true: Array, smoothing: float) -> Array:
    return (1 - smoothing) * true + smoothing / true.shape[1]


def over_others(true: Array, smoothing: float) -> Array:
    return np.where(true > 0, 1 - smoothing, smoothing / (true.shape[1] - 1))


def finite(loss: Any) -> Any:
    """As it is observed: infinity as nan."""
    return loss if np.isfinite(loss).all() else np.nan


def classes(
    log_p: Callable[[Array], Array] = log_softmax,
    target: Callable[[Array, float], Array] = smoothed,
    weigh: Callable[[Array], Array] = lambda weight: weight,
    total: Callable[[Array, Array], Any] = lambda weight, labels: weight[labels].sum(),
) -> Simulation:
    """The cross-entropy with one of its parts exchanged."""

    def simulate(case: Case) -> dict[str, Any]:
        logits, weight = (case.inputs[name].astype(np.float64) for name in ("logits", "weight"))
        labels, smoothing = case.inputs["labels"], case.inputs["label_smoothing"]
        distribution = target(np.eye(logits.shape[1])[labels], smoothing)
        terms = distribution * weigh(weight) * log_p(logits)
        # A probability of 0 times the logarithm of 0 is nan in some answers, and not computed at all in others.
        loss = -np.where(distribution > 0, terms, 0.0).sum() / total(weigh(weight), labels)
        return {CLASSES: finite(loss)}

    return simulate


def log_sigmoid(logits: Array) -> Array:
    return np.minimum(logits, 0) - np.log1p(np.exp(-np.abs(logits)))


def log_of_sigmoid(logits: Array) -> Array:
    return np.log(1 / (1 + np.exp(-logits)))


def log_of_complement(logits: Array) -> Array:
    return np.log(1 - 1 / (1 + np.exp(-logits)))


Pair = tuple[Callable[[Array], Array], Callable[[Array], Array]]
STABLE: Pair = (log_sigmoid, lambda logits: log_sigmoid(-logits))


def binary(
    logs: Pair = STABLE,
    positive: Callable[[Array], Any] = lambda weight: weight,
    negative: Callable[[Array], Any] = lambda weight: 1.0,
    reduce: Callable[[Array], Any] = np.mean,
) -> Simulation:
    """The binary cross-entropy with one of its parts exchanged."""

    def simulate(case: Case) -> dict[str, Any]:
        names = ("binary_logits", "targets", "pos_weight")
        logits, targets, weight = (case.inputs[name].astype(np.float64) for name in names)
        with_one = positive(weight) * targets * logs[0](logits)
        return {BINARY: finite(reduce(-(with_one + negative(weight) * (1 - targets) * logs[1](logits))))}

    return simulate


def cut_at(smallest: float) -> Pair:
    return tuple(lambda logits, log=log: np.maximum(log(logits), smallest) for log in STABLE)  # type: ignore[return-value]


def case(rng: np.random.Generator, kind: str, shape: tuple[int, int], dtype: type = np.float64) -> Case:
    """Every label differs in weight from the others; no row of a large case is right by chance."""
    examples, count = shape
    labels = rng.permutation(np.resize(rng.permutation(count), examples))
    logits, binary_logits = rng.uniform(-2.5, 2.5, (2, examples, count))
    targets = np.resize(rng.permutation([0.0, 1.0]), shape)
    if kind == LARGE:
        # The label's logit is not the largest; in the last row all are far below 0.
        logits = rng.uniform(-1200, -800, shape)
        logits[np.arange(examples - 1), (labels[:-1] + 1) % count] *= -1
        binary_logits = rng.choice([-1.0, 1.0], shape) * rng.uniform(800, 1200, shape)
        binary_logits[0] = np.where(targets[0] == 1, -1000.0, 1000.0)
    weight, pos_weight = (
        rng.permutation(np.geomspace(0.3, 4.0, count)) if kind in (WEIGHTED, BOTH) else np.ones(count) for _ in range(2)
    )
    if kind in (SMOOTHED, BOTH):
        targets = rng.uniform(0.1, 0.9, shape)
    smoothing = float(rng.uniform(0.1, 0.3)) if kind in (SMOOTHED, BOTH) else 0.0
    return made(kind, logits, labels, weight, smoothing, binary_logits, targets, pos_weight, dtype)


def made(kind: str, *values: Any) -> Case:
    logits, labels, weight, smoothing, binary_logits, targets, pos_weight, dtype = values
    inputs = {"logits": logits, "weight": weight, "targets": targets, "pos_weight": pos_weight}
    arrays = {name: np.asarray(value, dtype) for name, value in {**inputs, "binary_logits": binary_logits}.items()}
    return Case(kind, {**arrays, "labels": np.asarray(labels, np.int64), "label_smoothing": smoothing})


def right_large(rng: np.random.Generator) -> Case:
    """The label's logit is far the largest, so the loss is 0: only what overflows is wrong here."""
    drawn = case(rng, LARGE, (2, 4))
    logits, labels = drawn.inputs["logits"].copy(), drawn.inputs["labels"]
    logits[np.arange(2), labels] = 1500.0
    return Case(LARGE, {**drawn.inputs, "logits": logits})


def equal_large(rng: np.random.Generator) -> Case:
    """Both logits are the same large number: only `exp` of it is infinite, and no probability underflows."""
    drawn = case(rng, LARGE, (1, 2))
    return Case(LARGE, {**drawn.inputs, "logits": np.full((1, 2), rng.uniform(800, 1200))})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each kind with several and with two classes, one example alone, and both precisions."""
    cases = [case(rng, kind, shape) for kind in (WEIGHTED, SMOOTHED, BOTH) for shape in ((6, 4), (5, 3))]
    cases += [case(rng, PLAIN, (5, 3)), case(rng, PLAIN, (4, 3), np.float32), case(rng, PLAIN, (1, 2))]
    return [*cases, case(rng, LARGE, (4, 3)), case(rng, LARGE, (3, 2)), right_large(rng), equal_large(rng)]


def domain(rng: np.random.Generator) -> Case:
    """Few or twelve examples and classes; float64 with logits up to ten thousand, or float32 with logits up to 20.

    In one of four cases logits and weights are as large and as small as they may be; some rows have equal logits. The
    last class has no label in one of four cases, and there is one yes-or-no question in one of four. In one of seven,
    all answers are right by a logit of about ten.
    """
    examples, count = (int(rng.choice([12, int(rng.integers(least, 6))], p=[0.15, 0.85])) for least in (1, 2))
    dtype, largest = [(np.float32, 20.0), (np.float64, 1e4)][rng.integers(2)]
    size = float(rng.choice([largest, 10 ** rng.uniform(-1, np.log10(largest))]))
    labels = rng.integers(count - (rng.integers(4) == 0), size=examples)
    questions = int(rng.choice([1, int(rng.integers(2, 6))], p=[0.25, 0.75]))
    binary_shape = int(rng.choice([1, 12, int(rng.integers(2, 6))], p=[0.2, 0.1, 0.7])), questions
    logits, binary_logits = (rng.uniform(-size, size, shape) for shape in ((examples, count), binary_shape))
    targets = rng.choice([0.0, 1.0, float(rng.uniform())], binary_shape)
    weight, pos_weight = (10 ** rng.uniform(-1, 1, number) for number in (count, binary_shape[1]))
    if rng.integers(4) == 0:
        logits, binary_logits = size * np.sign(logits), size * np.sign(binary_logits)
        weight, pos_weight = rng.choice([0.1, 10.0], count), rng.choice([0.1, 10.0], binary_shape[1])
    logits[rng.random(examples) < 0.1] = rng.choice([0.0, size, -size])
    binary_logits[rng.random(binary_shape) < 0.05] = 0.0
    smoothing = float(rng.choice([0.0, 0.5, rng.uniform(0, 0.5)], p=[0.4, 0.15, 0.45]))
    kind = "domain"
    if rng.integers(7) == 0:
        kind, smoothing = "confidently right answers, whose losses are small", 0.0
        logits = rng.uniform(10, 11, (examples, 1)) * np.eye(count)[labels]
        binary_logits = rng.choice([-1, 1], binary_shape) * rng.uniform(10, 11, binary_shape)
        targets, pos_weight = np.where(binary_logits > 0, 1.0, 0.0), rng.uniform(5, 10, questions)
    elif questions == 1 and len(np.unique(binary_logits)) > 1 < len(np.unique(targets)):
        kind = "one yes-or-no question, several examples"
    elif dtype is np.float32 and ((binary_logits > 17) & (targets < 1)).any():
        kind = "large logits of questions in float32"
    elif ((logits.min(axis=1) < -2000) & (logits.max(axis=1) > 2000)).any():
        kind = "large logits of both signs in a row"
    return made(kind, logits, labels, weight, smoothing, binary_logits, targets, pos_weight, dtype)


QUESTION = Description(
    id="03c-stable",
    parts=(
        Graded("cross-entropy", 2, (CLASSES,), on=(PLAIN,)),
        Graded("cross-entropy, large logits", 3, (CLASSES,), on=(LARGE,)),
        Graded("class weights", 2, (CLASSES,), on=(WEIGHTED,)),
        Graded("label smoothing", 2, (CLASSES,), on=(SMOOTHED,)),
        Graded("both", 1, (CLASSES,), on=(BOTH,)),
        Graded("binary", 1, (BINARY,), on=(PLAIN, SMOOTHED)),
        Graded("binary, large logits", 2, (BINARY,), on=(LARGE,)),
        Graded("positive weights", 1, (BINARY,), on=(WEIGHTED, BOTH)),
    ),
    reference=lambda case: {**classes()(case), **binary()(case)},
    mistakes=(
        Mistake(
            "log-of-softmax",
            "the logarithm was taken of a probability that had underflowed to 0",
            "whether log p can be computed without computing p first",
            classes(lambda logits: np.log(softmax(logits))),
            also=(classes(zero_times_infinity),),
        ),
        Mistake(
            "overflow",
            "a number left its range: `exp` of a large logit is infinite, and the logarithm of an underflowed p is too",
            "what can be subtracted from all logits of a row without changing the probabilities",
            classes(overflowing),
        ),
        Mistake(
            "epsilon-added",
            "a small number was added to the probability, so the loss of a confident mistake has an upper limit",
            "the loss at the logits [0, 1000] with label 0: it is 1000",
            classes(lambda logits: np.log(softmax(logits) + 1e-8)),
            also=tuple(
                classes(lambda logits, least=least: np.log(np.maximum(softmax(logits), least)))  # type: ignore[misc]
                for least in (1e-12, 1e-10, 1e-9, 1e-7)
            ),
        ),
        Mistake(
            "softmax-twice",
            "the softmax was applied twice, so the loss cannot come near 0",
            "what your log-probabilities are computed from: logits or probabilities",
            classes(lambda logits: log_softmax(softmax(logits))),
        ),
        Mistake(
            "weights-ignored",
            "the class weights change nothing",
            "where `weight` is used",
            classes(weigh=np.ones_like),
        ),
        Mistake(
            "weights-not-divided",
            "the weighted sum is divided by the number of examples, so twice the weights give twice the loss",
            "what the question divides by",
            classes(total=lambda weight, labels: len(labels)),
            also=(classes(total=lambda weight, labels: weight.sum()),),
        ),
        Mistake(
            "smoothing-ignored",
            "label smoothing changes nothing",
            "where `label_smoothing` is used",
            classes(target=lambda true, smoothing: true),
        ),
        Mistake(
            "smoothing-over-others",
            "label smoothing was shared among the other classes only: ε/(C-1) for each, and 1-ε for the label",
            "the target distribution of the question, in which the label gets a part of ε as well",
            classes(target=over_others),
        ),
        Mistake(
            "smoothing-too-little",
            "the smoothed targets of an example do not add up to 1",
            "what the label's target is with ε = 0.1 and C = 2: 0.95",
            classes(target=lambda true, smoothing: np.where(true > 0, 1 - smoothing, smoothing / true.shape[1])),
        ),
        Mistake(
            "summed",
            "the cross-entropy is a sum over the examples, not a mean",
            "what happens to the loss when every example is in the batch twice",
            classes(total=lambda weight, labels: 1.0),
        ),
        Mistake(
            "log-of-sigmoid",
            "the binary loss took the logarithm of a probability that was rounded to 0 or to 1",
            "log(1 - sigmoid(z)) at z = 1000, and 0 times that",
            binary((log_of_sigmoid, log_of_complement)),
        ),
        Mistake(
            "cut-at-100",
            "`binary_cross_entropy` of a sigmoid cuts each logarithm off at -100",
            "the loss at the logit -1000 with target 1: it is 1000",
            binary(cut_at(-100.0)),
            also=tuple(binary(cut_at(np.log(least))) for least in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7)),
        ),
        Mistake(
            "pos-weight-ignored",
            "`pos_weight` changes nothing",
            "where `pos_weight` is used",
            binary(positive=lambda weight: 1.0),
        ),
        Mistake(
            "pos-weight-on-both",
            "`pos_weight` multiplies the whole loss; it belongs to the positive part alone",
            "which of the two terms is there when the target is 1",
            binary(negative=lambda weight: weight),
        ),
        Mistake(
            "pos-weight-on-negatives",
            "`pos_weight` multiplies the part of the negative targets",
            "which of the two terms is there when the target is 1",
            binary(positive=lambda weight: 1.0, negative=lambda weight: weight),
        ),
        Mistake(
            "binary-summed",
            "the binary loss is summed over the labels of an example, or over everything",
            "how many entries the mean is taken over",
            binary(reduce=lambda losses: losses.sum() / len(losses)),
            also=(binary(reduce=np.sum),),
        ),
        Mistake(
            "softmax-over-labels",
            "the binary loss used a softmax: labels that exclude each other, where each is a question of its own",
            "whether two labels of one example can both be true",
            binary((log_softmax, lambda logits: np.log(1 - softmax(logits)))),
        ),
    ),
    visible=(
        made(
            "two examples, three classes; two labels each",
            *([[2, 0, 1], [0, 1, 0]], [0, 2], np.ones(3), 0.0),
            *([[2, -1], [0, 3]], [[1, 0], [0, 1]], np.ones(2), np.float64),
        ),
        made(
            "logits of a thousand, and of minus a thousand",
            *([[0, 1000], [-1000, -1001]], [0, 0], np.ones(2), 0.0),
            *([[1000, -1000], [1000, -1000]], [[1, 1], [0, 0]], np.ones(2), np.float64),
        ),
        made(
            "two equal logits of a thousand",
            *([[1000, 1000]], [0], np.ones(2), 0.0),
            *([[2, -1]], [[1, 0]], np.ones(2), np.float64),
        ),
        made(
            "a confident right answer",
            *([[1000, 0, 0]], [0], np.ones(3), 0.0),
            *([[1000.0]], [[1]], np.ones(1), np.float64),
        ),
        made(
            "weights 1, 2 and 5; pos_weight 3 and 0.5",
            *([[2, 0, 1], [0, 1, 0]], [0, 2], [1, 2, 5], 0.0),
            *([[2, -1], [0, 3]], [[1, 0], [0, 1]], [3, 0.5], np.float64),
        ),
        made(
            "label smoothing 0.1, float32; soft targets",
            *([[2, 0, 1], [0, 1, 0]], [0, 2], np.ones(3), 0.1),
            *([[2, -1], [0, 3]], [[0.9, 0.2], [0.5, 1]], np.ones(2), np.float32),
        ),
        made(
            "label smoothing 0.2 with weights 1, 2 and 5",
            *([[2, 0, 1], [0, 1, 0]], [0, 2], [1, 2, 5], 0.2),
            *([[2, -1], [0, 3]], [[1, 0], [0, 1]], [2, 2], np.float64),
        ),
    ),
    draw=draw,
    domain=domain,
)
