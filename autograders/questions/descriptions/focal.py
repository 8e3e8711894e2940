"""03c-focal: weights of uneven classes; focal loss and its gradient for both labels, at moderate and large logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

Array = np.ndarray
WEIGHTS, LOSS, GRADIENT = "weights.value", "loss.value", "gradient.value"
MODERATE, LARGE = "moderate logits", "logits of a thousand"


class Focal(NamedTuple):
    """A batch in the terms of the formula: everything is about the label's probability p."""

    sign: Array
    p: Array
    log_p: Array
    gamma: float
    alpha: float

    @property
    def q(self) -> Array:
        """1 - p, to the last digit."""
        return -np.expm1(self.log_p)

    @property
    def label(self) -> Array:
        return self.sign > 0


Term = Callable[[Focal], Array]
"""A batch -> a number for each example."""


def batch_of(case: Case) -> Focal:
    sign = 2.0 * case.inputs["labels"] - 1
    x = sign * case.inputs["logits"].astype(np.float64)
    log_p = np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))
    return Focal(sign, np.exp(log_p), log_p, case.inputs["gamma"], case.inputs["alpha"])


def both_sides(b: Focal) -> Array:
    return np.where(b.label, b.alpha, 1 - b.alpha)


def loss(b: Focal) -> Array:
    return -(b.q**b.gamma) * b.log_p


def slope(b: Focal) -> Array:
    return -b.sign * b.q**b.gamma * (b.q - b.gamma * b.p * b.log_p)


def mean(losses: Array, weights: Array) -> float:
    return float(losses.mean())


def entries(slopes: Array, weights: Array) -> Array:
    return slopes / len(slopes)


def as_loss(term: Term = loss, alpha: Term = both_sides, reduce: Callable[[Array, Array], Any] = mean) -> Simulation:
    def simulate(case: Case) -> dict[str, Any]:
        value = reduce(alpha(batch_of(case)) * term(batch_of(case)), alpha(batch_of(case)))
        return {LOSS: value if np.isfinite(value) else np.nan}

    return simulate


def as_gradient(
    term: Term = slope, alpha: Term = both_sides, reduce: Callable[[Array, Array], Array] = entries
) -> Simulation:
    return lambda case: {GRADIENT: reduce(alpha(batch_of(case)) * term(batch_of(case)), alpha(batch_of(case)))}


def forms(first: Simulation, second: Simulation) -> dict[str, Any]:
    """A mistake in both functions, or in one of them."""
    return {"simulate": lambda case: {**first(case), **second(case)}, "also": (first, second)}


def weighed(alpha: Term) -> dict[str, Any]:
    return forms(as_loss(alpha=alpha), as_gradient(alpha=alpha))


def of_class_one(b: Focal) -> Array:
    return np.where(b.label, b.p, b.q)


def rounded(b: Focal) -> Focal:
    """With the logarithm of a probability that was computed first."""
    return b._replace(log_p=np.log(b.p))


def cut(b: Focal, least: float) -> Array:
    return -(b.q**b.gamma) * np.log(np.maximum(b.p, least))


def counted(change: Callable[[Array], Array]) -> Simulation:
    return given(
        {WEIGHTS: lambda table, classes, **_: change(np.bincount(table, minlength=classes).astype(np.float64))}
    )


def balanced(counts: Array) -> Array:
    return counts.sum() / (len(counts) * counts)


def reference(case: Case) -> dict[str, Any]:
    return {**counted(balanced)(case), **as_loss()(case), **as_gradient()(case)}


def made(kind: str, logits: Any, labels: Any, gamma: float, alpha: float, table: Any, dtype: Any = np.float64) -> Case:
    inputs = {"logits": np.asarray(logits, dtype), "labels": np.asarray(labels, np.int64), "gamma": gamma}
    table = np.asarray(table, np.int64)
    return Case(kind, {**inputs, "alpha": alpha, "table": table, "classes": int(table.max()) + 1})


def table_of(rng: np.random.Generator, classes: int) -> Array:
    """Every class at least once, no two equally often."""
    counts = 1 + rng.permutation(classes) * 2 + rng.integers(2)
    return rng.permutation(np.repeat(np.arange(classes), counts))


def case(rng: np.random.Generator, kind: str, gamma: float, examples: int, dtype: Any = np.float64) -> Case:
    """Right and wrong answers for both labels, in random order, and alpha far from a half."""
    labels = np.resize([0, 1, 1, 0], examples)
    right = np.resize([1.0, 1.0, -1.0, -1.0], examples)
    size = rng.uniform(800, 1200, examples) if kind == LARGE else rng.uniform(0.4, 2.5, examples)
    order = rng.permutation(examples)
    logits = ((2 * labels - 1) * right * size)[order]
    alpha = float(rng.choice([rng.uniform(0.1, 0.35), rng.uniform(0.65, 0.9)]))
    return made(kind, logits, labels[order], gamma, alpha, table_of(rng, int(rng.integers(2, 6))), dtype)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each gamma, one example of each label alone, and both precisions."""
    cases = [case(rng, MODERATE, gamma, 7) for gamma in (0, 1.0, 2.0, float(rng.uniform(2.5, 4)))]
    cases += [case(rng, MODERATE, float(rng.uniform(0.3, 0.8)), 5), case(rng, MODERATE, 2.0, 6, np.float32)]
    cases += [
        made(MODERATE, [sign * rng.uniform(0.5, 2)], [label], 2, float(rng.uniform(0.1, 0.35)), table_of(rng, 3))
        for sign, label in ((1, 0), (-1, 1))
    ]
    return [*cases, *(case(rng, LARGE, gamma, 6) for gamma in (0, 0.5, 2.0))]


def domain(rng: np.random.Generator) -> Case:
    """One to six examples or twelve, of one label or both; float64 with logits up to 1,200, or float32 up to 20.

    The table has two to five classes or twelve, some with a thousand times as many examples as others; all numbers
    reach the ends of their ranges.
    """
    dtype, largest = [(np.float32, 20.0), (np.float64, 1200.0)][rng.integers(2)]
    size = rng.choice([largest, 10 ** rng.uniform(-1, np.log10(largest))])
    examples = int(rng.choice([1, 12, int(rng.integers(2, 7))], p=[0.15, 0.15, 0.7]))
    logits = rng.choice([0.0, 1.0], examples, p=[0.1, 0.9]) * rng.uniform(-size, size, examples)
    if rng.integers(6) == 0:
        logits = size * np.sign(logits)
    gamma = float(rng.choice([0.0, 1.0, 2.0, 5.0, rng.uniform(0, 5)]))
    labels = rng.integers(2, size=examples) if rng.integers(3) else np.full(examples, rng.integers(2))
    alpha = float(rng.choice([0.05, 0.95, 0.5, rng.uniform(0.05, 0.95)], p=[0.1, 0.1, 0.1, 0.7]))
    classes = int(rng.choice([12, int(rng.integers(2, 6))], p=[0.15, 0.85]))
    more = np.zeros(2000, int) if rng.integers(8) == 0 else rng.integers(classes, size=rng.integers(9))
    table = rng.permutation(np.concatenate([np.arange(classes), more]))
    return made("domain", logits, labels, gamma, alpha, table, dtype)


QUESTION = Description(
    id="03c-focal",
    parts=(
        Graded("weights", 2, (WEIGHTS,)),
        Graded("loss", 3, (LOSS,), on=(MODERATE,)),
        Graded("loss, large logits", 2, (LOSS,), on=(LARGE,)),
        Graded("gradient", 3, (GRADIENT,), on=(MODERATE,)),
        Graded("gradient, large logits", 2, (GRADIENT,), on=(LARGE,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "published-sign",
            "the gradient has the wrong sign, as in a formula that is often printed: a step against it raises the loss",
            "the gradient at gamma = 0, which must be that of the cross-entropy",
            as_gradient(lambda b: -slope(b)),
            also=(as_gradient(lambda b: -b.sign * slope(b)),),
        ),
        Mistake(
            "sign-of-the-label",
            "the gradient has the same sign for both labels",
            "what a larger logit does to the probability of label 0",
            as_gradient(lambda b: b.sign * slope(b)),
        ),
        Mistake(
            "factor-as-constant",
            "the factor (1 - p)^gamma was treated as a constant: its own derivative is missing",
            "the product rule: both factors of the loss depend on the logit",
            as_gradient(lambda b: -b.sign * b.q ** (b.gamma + 1)),
        ),
        Mistake(
            "alpha-on-one-side",
            "alpha weighs label 1, and label 0 has the weight 1",
            "what label 0 is multiplied by",
            **weighed(lambda b: np.where(b.label, b.alpha, 1.0)),
        ),
        Mistake(
            "alpha-exchanged",
            "alpha weighs label 0, and 1 - alpha label 1",
            "which label alpha belongs to",
            **weighed(lambda b: np.where(b.label, 1 - b.alpha, b.alpha)),
        ),
        Mistake(
            "alpha-for-both",
            "both labels are multiplied by alpha",
            "what label 0 is multiplied by",
            **weighed(lambda b: np.full_like(b.p, b.alpha)),
        ),
        Mistake(
            "alpha-ignored",
            "alpha changes nothing",
            "where `alpha` is used",
            **weighed(lambda b: np.ones_like(b.p)),
        ),
        Mistake(
            "p-of-class-one",
            "the factor was computed from the probability of class 1 for both labels",
            "which probability is near 1 for an easy example with label 0",
            as_loss(lambda b: -((1 - of_class_one(b)) ** b.gamma) * b.log_p),
        ),
        Mistake(
            "easy-examples-favoured",
            "the factor is p^gamma: it makes easy examples count more",
            "the factor of an example with p near 1",
            as_loss(lambda b: -(b.p**b.gamma) * b.log_p),
        ),
        Mistake(
            "divided-by-alpha",
            "the sum was divided by the sum of the alphas; the question divides by the number of examples",
            "what the mean is taken over",
            **forms(
                as_loss(reduce=lambda losses, weights: losses.sum() / weights.sum()),
                as_gradient(reduce=lambda slopes, weights: slopes / weights.sum()),
            ),
        ),
        Mistake(
            "not-divided",
            "this is a sum over the examples: the mean divides by their number, in the loss and in its gradient",
            "what the loss of a batch twice as large is",
            **forms(
                as_loss(reduce=lambda losses, weights: losses.sum()),
                as_gradient(reduce=lambda slopes, weights: slopes),
            ),
        ),
        Mistake(
            "log-of-zero",
            "the logarithm was taken of a probability that had underflowed to 0",
            "whether log p can be computed without computing p first",
            **forms(as_loss(lambda b: loss(rounded(b))), as_gradient(lambda b: slope(b._replace(log_p=np.log(b.p))))),
        ),
        Mistake(
            "epsilon-added",
            "p was kept above a small number, so the loss of a confident mistake has an upper limit",
            "the loss at the logit -1000 with label 1",
            as_loss(lambda b: cut(b, 1e-8)),
            also=tuple(
                as_loss(lambda b, least=least: cut(b, least))  # type: ignore[misc]
                for least in (1e-12, 1e-10, 1e-9, 1e-7)
            ),
        ),
        Mistake(
            "classes-not-divided",
            "the weights are N / n: without the number of classes they are too large",
            "the weights of a table in which all classes are equally frequent",
            counted(lambda counts: counts.sum() / counts),
        ),
        Mistake(
            "inverse-counts",
            "the weights are 1 / n, which get smaller when the table gets longer",
            "the weights of a table in which all classes are equally frequent",
            counted(lambda counts: 1 / counts),
        ),
        Mistake(
            "weights-add-up-to-one",
            "the weights were scaled to a sum (or a mean) over the classes; the mean over the examples must be 1",
            "the weights of a table in which all classes are equally frequent, and of one with two classes",
            counted(lambda counts: 1 / counts / (1 / counts).sum()),
            also=(
                counted(lambda counts: len(counts) / counts / (1 / counts).sum()),
                counted(lambda counts: counts.max() / counts),
            ),
        ),
        Mistake(
            "frequency",
            "a frequent class got the largest weight",
            "which class should count more",
            counted(lambda counts: counts / counts.sum()),
        ),
    ),
    visible=(
        made("gamma 2, alpha 0.25; a table 0, 0, 0, 1", [2, -1, 1, -2], [1, 1, 0, 0], 2.0, 0.25, [0, 0, 0, 1]),
        made("gamma 0, alpha 0.8; a table with three classes", [0.5, -3], [1, 0], 0, 0.8, [2, 0, 2, 1, 2, 0, 2]),
        made("gamma 0.5, float32; a balanced table", [0, 1, -1], [0, 0, 1], 0.5, 0.6, [1, 0], dtype=np.float32),
        made("logits of a thousand", [-1000, 1000, 1000, -1000], [1, 1, 0, 0], 2.0, 0.25, [0, 1, 1]),
    ),
    draw=draw,
    domain=domain,
)
