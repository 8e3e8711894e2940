"""03c-regression: residuals inside and beyond delta, of both signs, in one axis and in two, with delta far from 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

Array = np.ndarray
Curve = Callable[[Array, float], Array]
"""Residuals and delta -> one number for each residual."""
LOSS, GRADIENT = "loss.value", "gradient.value"
INSIDE, BEYOND, MATRIX = "residuals inside delta", "residuals beyond delta", "two axes"


def pieces(inner: Curve, outer: Curve, near: Curve = lambda r, delta: np.abs(r) <= delta) -> Curve:
    return lambda r, delta: np.where(near(r, delta), inner(r, delta), outer(r, delta))


def parabola(r: Array, delta: float) -> Array:
    return r**2 / 2


def line(r: Array, delta: float) -> Array:
    return delta * np.abs(r) - delta**2 / 2


def residual(r: Array, delta: float) -> Array:
    return r


def slope(r: Array, delta: float) -> Array:
    return delta * np.sign(r)


def below(r: Array, delta: float) -> Array:
    return r <= delta


huber, derivative = pieces(parabola, line), pieces(residual, slope)


def as_loss(curve: Curve, reduce: Callable[[Array], Any] = np.mean) -> Simulation:
    return given({LOSS: lambda predictions, targets, delta: reduce(curve(exact(predictions, targets), delta))})


def as_gradient(curve: Curve, count: Callable[[Array], float] = np.size) -> Simulation:
    return given(
        {
            GRADIENT: lambda predictions, targets, delta: curve(exact(predictions, targets), delta) / count(targets),
        }
    )


def both(loss: Simulation, gradient: Simulation) -> Simulation:
    return lambda case: {**loss(case), **gradient(case)}


def forms(loss: Simulation, gradient: Simulation) -> dict[str, Any]:
    """A mistake in both functions, or in one of them."""
    return {"simulate": both(loss, gradient), "also": (loss, gradient)}


def exact(predictions: Array, targets: Array) -> Array:
    return predictions.astype(np.float64) - targets.astype(np.float64)


def rows(values: Array) -> float:
    return float(len(values))


def case(rng: np.random.Generator, kind: str, sizes: tuple[float, ...], shape: tuple[int, ...], delta: float) -> Case:
    """Residuals of the given sizes in units of delta, of both signs where there are two."""
    size = np.resize(np.array(sizes), shape) * rng.uniform(0.9, 1.1, shape)
    sign = np.resize(rng.permutation([1.0, -1.0]), shape)
    targets = rng.uniform(-5, 5, shape)
    dtype = [np.float32, np.float64][rng.integers(2)]
    predictions = targets + sign * rng.permutation(size.ravel()).reshape(shape) * delta
    return Case(kind, {"predictions": predictions.astype(dtype), "targets": targets.astype(dtype), "delta": delta})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has a small and a large delta, residuals of both signs on both sides of it, and one entry alone."""
    cases = []
    for low, high in ((0.3, 0.6), (2.0, 4.0)):
        delta = float(rng.uniform(low, high))
        cases += [
            case(rng, INSIDE, (0.3, 0.7, 0.85), (5,), delta),
            case(rng, BEYOND, (0.5, 1.5, 3.0), (6,), delta),
            case(rng, BEYOND, (20.0, 30.0), (4,), delta),
            case(rng, MATRIX, (0.5, 2.0, 3.0), (int(rng.integers(4, 6)), 3), delta),
            case(rng, MATRIX, (0.5, 2.0), (1, 2), delta),
        ]
        for sign in (1.0, -1.0):
            cases.append(
                Case(BEYOND, {"predictions": np.array([sign * 3 * delta]), "targets": np.zeros(1), "delta": delta})
            )
    return [*cases, Case(INSIDE, {"predictions": np.array([2.0, 3.0]), "targets": np.array([2.0, 5.0]), "delta": 2})]


def domain(rng: np.random.Generator) -> Case:
    """One or two axes, one precision, residuals of up to a thousand, equal to delta and 0 among them.

    One column, one row, one entry and more than ten rows are not rare; nor are predictions that are all right, targets
    of a thousand, and the ends of what delta may be.
    """
    rows = int(rng.choice([1, 12, int(rng.integers(2, 6))], p=[0.2, 0.15, 0.65]))
    columns = int(rng.choice([1, int(rng.integers(2, 6))], p=[0.4, 0.6]))
    shape = (rows,) if rng.integers(2) else (rows, columns)
    # As float32 has it, so that a residual that equals delta does so in both precisions.
    delta = float(np.float32(rng.choice([0.1, 1.0, 100.0, 10 ** rng.uniform(-1, 2)], p=[0.12, 0.12, 0.12, 0.64])))
    dtype = [np.float32, np.float64][rng.integers(2)]
    residuals = rng.choice([-1.0, 1.0], shape) * 10 ** rng.uniform(-1, 3, shape)
    residuals = np.where(rng.random(shape) < 0.2, rng.choice([0.0, delta, -delta], shape), residuals)
    if rng.integers(6) == 0:
        residuals = np.zeros(shape)
    targets, kind = rng.choice([0.0, 1.0, 10.0]) * rng.uniform(-100, 100, shape), "domain"
    if rng.integers(6) == 0:
        kind, dtype, delta = "residuals of thousands of deltas, float32", np.float32, float(np.float32(0.1))
        targets, residuals = np.zeros(shape), rng.choice([-1.0, 1.0], shape) * rng.uniform(800, 2000, shape)
    targets = np.where(np.abs(residuals) == delta, 0.0, targets)
    inputs = {"predictions": (targets + residuals).astype(dtype), "targets": targets.astype(dtype), "delta": delta}
    return Case(kind, inputs)


def visible(name: str, predictions: Any, targets: Any, delta: float, dtype: str = "float64") -> Case:
    arrays = {"predictions": np.array(predictions, dtype), "targets": np.array(targets, dtype)}
    return Case(name, {**arrays, "delta": delta})


QUESTION = Description(
    id="03c-regression",
    parts=(
        Graded("loss, inside", 2, (LOSS,), on=(INSIDE,)),
        Graded("loss, beyond", 2, (LOSS,), on=(BEYOND,)),
        Graded("gradient, inside", 2, (GRADIENT,), on=(INSIDE,)),
        Graded("gradient, beyond", 2, (GRADIENT,), on=(BEYOND,)),
        Graded("two axes", 2, (LOSS, GRADIENT), on=(MATRIX,)),
    ),
    reference=both(as_loss(huber), as_gradient(derivative)),
    mistakes=(
        Mistake(
            "smooth-l1",
            "this is `SmoothL1Loss(beta=delta)`, which is the Huber loss divided by delta",
            "the loss of a residual of 1 with delta = 2",
            **forms(
                as_loss(lambda r, delta: huber(r, delta) / delta),
                as_gradient(lambda r, delta: derivative(r, delta) / delta),
            ),
        ),
        Mistake(
            "half-missing",
            "inside delta the loss is the whole square: the factor 1/2 is missing",
            "the value and the slope of both pieces at a residual of delta: they must meet there",
            **forms(
                as_loss(pieces(lambda r, delta: r**2, line)),
                as_gradient(pieces(lambda r, delta: 2 * r, slope)),
            ),
        ),
        Mistake(
            "not-continuous",
            "the loss jumps at delta: the line beyond it does not start where the parabola ends",
            "the value of both pieces at a residual of delta",
            as_loss(pieces(parabola, lambda r, delta: delta * np.abs(r))),
            also=(
                as_loss(pieces(parabola, lambda r, delta: delta * (np.abs(r) - 0.5))),
                as_loss(pieces(parabola, lambda r, delta: np.abs(r) - delta / 2)),
                as_loss(pieces(parabola, lambda r, delta: delta * np.abs(r) + delta**2 / 2)),
            ),
        ),
        Mistake(
            "only-squares",
            "large residuals are squared as well: this is half of the mean squared error",
            "what is different for a residual above delta",
            **forms(as_loss(parabola), as_gradient(residual)),
        ),
        Mistake(
            "only-magnitudes",
            "small residuals are on a line as well: the parabola near 0 is missing",
            "what is different for a residual below delta",
            **forms(as_loss(lambda r, delta: delta * np.abs(r)), as_gradient(slope)),
        ),
        Mistake(
            "slope-of-one",
            "beyond delta the slope is 1 or -1: that is right only for delta = 1",
            "the derivative of the line beyond delta",
            as_gradient(pieces(residual, lambda r, delta: np.sign(r))),
        ),
        Mistake(
            "slope-without-sign",
            "beyond delta the slope is the same for a prediction that is too high and for one that is too low",
            "the derivative of |r| for a negative r",
            as_gradient(pieces(residual, lambda r, delta: np.full_like(r, delta))),
        ),
        Mistake(
            "no-slope",
            "beyond delta the loss does not change any more, so an outlier has no gradient at all",
            "whether a residual that is cut off at delta still depends on the prediction",
            **forms(
                as_loss(lambda r, delta: parabola(np.clip(r, -delta, delta), delta)),
                as_gradient(pieces(residual, lambda r, delta: np.zeros_like(r))),
            ),
        ),
        Mistake(
            "sign-of-the-gradient",
            "the gradient points the wrong way: a step against it moves the prediction away from the target",
            "the derivative of targets - predictions with respect to the predictions",
            as_gradient(lambda r, delta: -derivative(r, delta)),
        ),
        Mistake(
            "residual-compared",
            "the residual was compared with delta without its magnitude: large negative ones count as small",
            "the comparison that chooses the piece, for a residual of -10",
            **forms(as_loss(pieces(parabola, line, below)), as_gradient(pieces(residual, slope, below))),
        ),
        Mistake(
            "pieces-exchanged",
            "the line is used inside delta, and the parabola beyond it",
            "the comparison that chooses the piece",
            **forms(as_loss(pieces(line, parabola)), as_gradient(pieces(slope, residual))),
        ),
        Mistake(
            "not-divided",
            "this is a sum over the entries: the mean divides by their number, in the loss and in its gradient",
            "what the loss of a batch twice as large is",
            **forms(as_loss(huber, np.sum), as_gradient(derivative, lambda targets: 1.0)),
        ),
        Mistake(
            "divided-by-rows",
            "with two axes the sum is divided by the number of rows only",
            "how many entries a [4, 3] tensor has",
            **forms(as_loss(huber, lambda losses: losses.sum() / len(losses)), as_gradient(derivative, rows)),
        ),
        Mistake(
            "mean-of-one-axis",
            "with two axes the loss is not one number: the mean was taken along one axis",
            "what `dim=0` does",
            as_loss(huber, lambda losses: losses.mean(axis=0)),
            also=(as_loss(huber, lambda losses: losses.mean(axis=-1)),),
        ),
        Mistake(
            "pseudo-huber",
            "this is the pseudo-Huber loss, a smooth curve that has no pieces",
            "the two pieces in the formula of the question",
            **forms(
                as_loss(lambda r, delta: delta**2 * (np.sqrt(1 + (r / delta) ** 2) - 1)),
                as_gradient(lambda r, delta: r / np.sqrt(1 + (r / delta) ** 2)),
            ),
        ),
    ),
    visible=(
        visible("residuals 0.5, -1, 3 and -6, delta 2", [1.5, 1, 5, -1], [1, 2, 2, 5], 2.0),
        visible("two rows of three, delta 0.5", [[2, 1, 0], [0, 4, 1]], [[2.25, 1, 2], [-1, 3.75, 4]], 0.5),
        visible("all residuals inside delta, float32", [1, 2, 3], [0, 4, 3], 10.0, dtype="float32"),
        visible("one residual of exactly -delta", [1.0], [4.0], 3.0),
    ),
    draw=draw,
    domain=domain,
)
