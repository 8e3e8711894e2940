"""03a-clip: direction, untouched below the threshold, the norm before, and the angle of per-parameter clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

Arrays = list[np.ndarray]
CLIPPED, NORM, COSINE = "clipping.clipped", "clipping.norm", "cosine.cosine"


def norm(gradients: Arrays, max_norm: float = 0.0) -> float:
    return float(np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients)))


def scale_to(gradients: Arrays, max_norm: float) -> Arrays:
    length = norm(gradients)
    return [gradient * max_norm / length for gradient in gradients]


def clip(gradients: Arrays, max_norm: float) -> Arrays:
    return scale_to(gradients, max_norm) if norm(gradients) > max_norm else gradients


def square_compared(gradients: Arrays, max_norm: float) -> Arrays:
    return scale_to(gradients, max_norm) if norm(gradients) ** 2 > max_norm else gradients


def short_spared(gradients: Arrays, max_norm: float) -> Arrays:
    scaled = clip(gradients, max_norm)
    return [g if norm([g]) <= max_norm else s for g, s in zip(gradients, scaled, strict=True)]


def recomputed(gradients: Arrays, max_norm: float) -> Arrays:
    """The norm is taken anew for each tensor, of the list in which the ones before it are clipped already."""
    clipped = list(gradients)
    for index, gradient in enumerate(gradients):
        clipped[index] = gradient * min(1.0, max_norm / norm(clipped))
    return clipped


def by_spectral_norm(most_axes: int) -> Simulation:
    """A tensor of two to `most_axes` axes is measured as a matrix of as many rows as it has."""

    def spectral(gradients: Arrays, max_norm: float = 0.0) -> float:
        return math.hypot(
            *(np.linalg.norm(g.reshape(len(g), -1), 2) if 2 <= g.ndim <= most_axes else norm([g]) for g in gradients)
        )

    def clipped(gradients: Arrays, max_norm: float) -> Arrays:
        return [g * min(1.0, max_norm / spectral(gradients)) for g in gradients]

    return exactly({NORM: spectral, CLIPPED: clipped})


def clip_each(gradients: Arrays, max_norm: float) -> Arrays:
    return [clip([gradient], max_norm)[0] for gradient in gradients]


def dot(gradients: Arrays, clipped: Arrays) -> float:
    return float(sum((a * b).sum() for a, b in zip(gradients, clipped, strict=True)))


def cosine(gradients: Arrays, max_norm: float, clip: Callable[[Arrays, float], Arrays] = clip) -> float:
    clipped = [clip([gradient], max_norm)[0] for gradient in gradients]
    return dot(gradients, clipped) / (norm(gradients) * norm(clipped))


def exact(gradients: Arrays) -> Arrays:
    return [gradient.astype(np.float64) for gradient in gradients]


def exactly(fields: dict[str, Callable[..., Any]]) -> Simulation:
    """Each field computed in float64, whatever the gradients' precision."""
    simulate = given(fields)

    def in_float64(case: Case) -> Mapping[str, Any]:
        return simulate(replace(case, inputs={**case.inputs, "gradients": exact(case.inputs["gradients"])}))

    return in_float64


def gradients_of(rng: np.random.Generator, shapes: tuple[tuple[int, ...], ...], dtype: type = np.float64) -> Arrays:
    """Tensors of very different lengths: only then does clipping each by itself turn the gradient visibly."""
    lengths = rng.permutation(np.geomspace(0.4, 6.0, len(shapes))) * rng.uniform(0.7, 1.3, len(shapes))
    directions = [rng.normal(size=shape) for shape in shapes]
    gradients = [length * d / np.linalg.norm(d) for length, d in zip(lengths, directions, strict=True)]
    return [gradient.astype(dtype) for gradient in gradients]


SHAPES = (((3, 4), (4,), (2, 3)), ((5,), ()), ((2, 2, 2), (7,), (3, 1), (2,)), ((3,),), ((),))
ABOVE, BELOW = "above the threshold", "below the threshold"


def case(rng: np.random.Generator, kind: str, gradients: Arrays) -> Case:
    """A threshold well off the norm. It lies between a norm and its square where it can."""
    length = norm(exact(gradients))
    low, high = (2.0, 3.0) if kind == BELOW else (0.2, 0.4) if length > 0.6 else (0.6, 0.8)
    return Case(kind, {"gradients": gradients, "max_norm": length * rng.uniform(low, high)})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has both precisions, a tensor alone, long and short gradients, far from the threshold and near it."""
    cases = []
    for kind, near in ((ABOVE, 0.999), (BELOW, 1.001)):
        cases += [case(rng, kind, gradients_of(rng, shapes)) for shapes in SHAPES]
        cases.append(case(rng, kind, gradients_of(rng, SHAPES[0], np.float32)))
        cases.append(case(rng, kind, [rng.uniform(20, 40) * gradient for gradient in gradients_of(rng, SHAPES[0])]))
        gradients = gradients_of(rng, SHAPES[0])
        cases.append(Case(kind, {"gradients": gradients, "max_norm": near * norm(gradients)}))
    size = 2.0 ** rng.integers(3)
    exactly_at = [sign * np.array([length]) for sign, length in ((1, 3 * size), (-1, 4 * size))]
    return [*cases, Case(BELOW, {"gradients": exactly_at, "max_norm": int(5 * size)})]


def domain(rng: np.random.Generator) -> Case:
    """One to four tensors or twelve, of one precision, whose norms and max_norm lie between 0.1 and 1000.

    Some have many entries or six axes, or equal entries, or nothing but 0 beside one entry; max_norm may be an integer.
    """
    count = 12 if rng.integers(7) == 0 else rng.integers(1, 5)
    shapes = tuple(tuple(rng.integers(1, 4, rng.integers(0, 4))) for _ in range(count))
    shapes = {0: (*shapes, (1200,)), 1: ((1, 2, 1, 2, 1, 2), *shapes)}.get(int(rng.integers(7)), shapes)
    size = 10 ** rng.uniform(-0.3, 2.0)
    dtype = [np.float32, np.float64][rng.integers(2)]
    gradients = [(size * gradient).astype(dtype) for gradient in gradients_of(rng, shapes)]
    form = rng.integers(6)
    if form == 0:
        gradients = [np.full_like(gradient, norm([gradient]) / gradient.size**0.5) for gradient in gradients]
    elif form == 1:
        gradients = [(norm([g]) * (np.arange(g.size) == g.size - 1)).astype(dtype).reshape(g.shape) for g in gradients]
    max_norm = float(np.clip(norm(exact(gradients)) * 10 ** rng.uniform(-2, 2), 0.1, 1000.0))
    return Case("domain", {"gradients": gradients, "max_norm": math.ceil(max_norm) if form == 2 else max_norm})


def visible(name: str, max_norm: float, *gradients: Any, dtype: str = "float64") -> Case:
    return Case(name, {"gradients": [np.array(gradient, dtype) for gradient in gradients], "max_norm": max_norm})


QUESTION = Description(
    id="03a-clip",
    parts=(
        Graded("direction", 3, (CLIPPED,), on=(ABOVE,)),
        Graded("untouched", 2, (CLIPPED,), on=(BELOW,), unless=("never-clipped",)),
        Graded("norm", 1, (NORM,)),
        Graded("cosine", 2, (COSINE,)),
    ),
    reference=exactly({CLIPPED: clip, NORM: norm, COSINE: cosine}),
    mistakes=(
        Mistake(
            "per-parameter",
            "each tensor was clipped by its own norm, so the direction of the whole gradient changed",
            "how many norms you compute: the gradient of the model is one long vector",
            exactly({CLIPPED: clip_each}),
        ),
        Mistake(
            "never-clipped",
            "no gradient was clipped: what went in came out, also above the threshold",
            "the norm of the gradients that you return, when max_norm is smaller than theirs",
            exactly({CLIPPED: lambda gradients, max_norm: gradients}),
        ),
        Mistake(
            "always-rescaled",
            "a gradient below the threshold was stretched up to it",
            "what should happen when the norm is already smaller than max_norm",
            exactly({CLIPPED: scale_to}),
        ),
        Mistake(
            "square-compared",
            "the square of the norm was compared with max_norm",
            "both sides of the comparison that decides whether to clip",
            exactly({CLIPPED: square_compared}),
        ),
        Mistake(
            "short-spared",
            "a tensor whose own norm is below max_norm was left unchanged while the others were scaled",
            "whether all tensors are multiplied by the same number",
            exactly({CLIPPED: short_spared}),
        ),
        Mistake(
            "spectral-norm",
            "a matrix was measured by its largest singular value, not as one long vector of its entries",
            "what the norm function that you use computes for a matrix",
            by_spectral_norm(2),
            also=(by_spectral_norm(9),),
        ),
        Mistake(
            "norm-recomputed",
            "the global norm was computed anew for each tensor, after the ones before it had been clipped",
            "how often the norm is computed, and whether a tensor has changed by then",
            exactly({CLIPPED: recomputed}),
        ),
        Mistake(
            "norm-after",
            "the norm returned is the one after clipping, which is always max_norm or less and tells nothing",
            "when the norm is computed, and which one you would want to plot",
            exactly({NORM: lambda gradients, max_norm: min(norm(gradients), max_norm)}),
        ),
        Mistake(
            "sum-of-norms",
            "the norms of the tensors were added; norms do not add, their squares do",
            "the norm of [3, 4]: it is 5, not 7",
            exactly({NORM: lambda gradients, max_norm: sum(norm([gradient]) for gradient in gradients)}),
        ),
        Mistake(
            "squared-norm",
            "the sum of squares was used without its square root",
            "the last step from the sum of squares to the norm",
            exactly({NORM: lambda gradients, max_norm: norm(gradients) ** 2}),
        ),
        Mistake(
            "largest-norm",
            "the largest tensor's norm was taken for the norm of all",
            "what the other tensors add to the length of the whole vector",
            exactly({NORM: lambda gradients, max_norm: max(norm([gradient]) for gradient in gradients)}),
        ),
        Mistake(
            "value-clipping",
            "each entry was cut to ±max_norm: that is clipping by value, and it turns the gradient",
            "whether all entries are multiplied by the same number",
            exactly({CLIPPED: lambda gradients, max_norm: [g.clip(-max_norm, max_norm) for g in gradients]}),
        ),
        Mistake(
            "cosine-of-global",
            "the cosine is 1 everywhere: global clipping keeps the direction, and that is not what was asked for",
            "which clipping the second function measures",
            exactly({COSINE: lambda gradients, max_norm: 1.0}),
        ),
        Mistake(
            "cosine-of-rescaled",
            "in the second function a tensor below the threshold was stretched up to it",
            "what clipping does to a tensor whose own norm is already smaller than max_norm",
            exactly({COSINE: lambda gradients, max_norm: cosine(gradients, max_norm, scale_to)}),
        ),
        Mistake(
            "dot-product",
            "the dot product was not divided by the two lengths",
            "the range of a cosine: between -1 and 1",
            exactly({COSINE: lambda gradients, max_norm: dot(gradients, clip_each(gradients, max_norm))}),
        ),
    ),
    visible=(
        visible("g = [3], [4], max_norm 1", 1.0, [3.0], [4.0]),
        visible("one tensor is short: g = [0.3, 0.4], [1.2], max_norm 1", 1.0, [0.3, 0.4], [1.2]),
        visible(
            "one matrix of float32: g = [[6, 0], [0, 8]], max_norm 2", 2.0, [[6.0, 0.0], [0.0, 8.0]], dtype="float32"
        ),
        visible("a number and a short tensor: g = 0.3, [0.4], max_norm 0.3", 0.3, 0.3, [0.4]),
        visible("below the threshold: g = [[[3, 0]], [[0, 4]]], max_norm 6", 6.0, [[[3.0, 0.0]], [[0.0, 4.0]]]),
    ),
    draw=draw,
    domain=domain,
)
