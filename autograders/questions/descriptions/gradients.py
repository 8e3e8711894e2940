"""03d-gradients: norms, updates in proportion to weights, a threshold from a percentile, and clipping by it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
NORM, RATIOS, THRESHOLD, CLIPPED, BEFORE = "norm.value", "ratios.value", "threshold.value", "clip.values", "clip.norm"
FINITE, BROKEN = "finite norms", "norms that are not finite"


def norm(gradients: list[Array | None], slip: str = "") -> float:
    present = [gradient for gradient in gradients if gradient is not None]
    entries = np.concatenate([gradient.ravel() for gradient in present]) if present else np.zeros(1)
    norms = [float(np.linalg.norm(gradient)) for gradient in present] or [0.0]
    wrong = {
        "sum": sum(norms),
        "mean": sum(norms) / len(norms),
        "largest": max(norms),
        "no root": float((entries**2).sum()),
        "rms": float(np.sqrt((entries**2).mean())),
        "absolute": float(np.abs(entries).sum()),
        "largest entry": float(np.abs(entries).max()),
    }
    return wrong.get(slip, float(np.linalg.norm(entries)))


def ratios(before: list[Array], after: list[Array], slip: str = "") -> list[float]:
    measure: Callable[[Array], float] = {
        "std": lambda values: float(values.std(ddof=1)) if values.size > 1 else np.nan,
        "absolute": lambda values: float(np.abs(values).mean()),
        "squares": lambda values: float((values**2).sum()),
    }.get(slip, lambda values: float(np.linalg.norm(values)))
    values = []
    for old, new in zip(before, after, strict=True):
        update, size = measure(new - old), measure(new if slip == "of the new" else old)
        if slip == "not subtracted":
            update = measure(new)
        elif slip == "lengths subtracted":
            update = abs(measure(new) - measure(old))
        values.append((size / update if update else np.inf) if slip == "inverse" else update / size)
    return values


def percentile(norms: list[float], percent: float, slip: str = "") -> float:
    values = np.array(norms)
    if slip == "nan alone removed":
        values = values[~np.isnan(values)]
    elif slip == "nan as 0":
        values = np.nan_to_num(values)
    else:
        values = values[np.isfinite(values)]
    wrong: dict[str, Callable[[], float]] = {
        "largest": lambda: float(values.max()),
        "mean": lambda: float(values.mean()),
        "median": lambda: float(np.median(values)),
        "from the top": lambda: float(np.percentile(values, 100 - percent)),
        "share of the largest": lambda: float(values.max() * percent / 100),
        "by length": lambda: float(np.sort(values)[min(int(percent / 100 * len(values)), len(values) - 1)]),
        "two deviations": lambda: float(values.mean() + 2 * values.std()),
        "not sorted": lambda: float(values[int(percent / 100 * (len(values) - 1))]),
    }
    method: Any = slip if slip in ("lower", "higher", "nearest") else "linear"
    return wrong.get(slip, lambda: float(np.percentile(values, percent, method=method)))()


def clipped(gradients: list[Array | None], limit: float, slip: str = "") -> dict[str, Any]:
    total = norm(gradients)
    scale = limit / total if total > limit or (slip == "always" and total > 0) else 1.0
    changed = [None if gradient is None else gradient * scale for gradient in gradients]
    if slip == "each alone":
        changed = [
            None if gradient is None else gradient * min(1.0, limit / max(float(np.linalg.norm(gradient)), 1e-300))
            for gradient in gradients
        ]
    elif slip == "by value":
        changed = [None if gradient is None else np.clip(gradient, -limit, limit) for gradient in gradients]
    elif slip == "set to zero" and total > limit:
        changed = [None if gradient is None else np.zeros_like(gradient) for gradient in gradients]
    return {CLIPPED: changed, BEFORE: norm(changed) if slip == "measured after" else total}


def reference(case: Case) -> dict[str, Any]:
    inputs = case.inputs
    return {
        NORM: norm(inputs["gradients"]),
        RATIOS: ratios(inputs["before"], inputs["after"]),
        THRESHOLD: percentile(inputs["norms"], inputs["percent"]),
        **clipped(inputs["gradients"], inputs["limit"]),
    }


def as_norm(*slips: str) -> dict[str, Any]:
    """A wrong norm in `global_norm`, and there as well as in `clip_gradients`, which may call it."""

    def simulate(slip: str) -> Simulation:
        return lambda case: {NORM: norm(case.inputs["gradients"], slip)}

    def everywhere(slip: str) -> Simulation:
        def fields(case: Case) -> dict[str, Any]:
            gradients, limit = case.inputs["gradients"], case.inputs["limit"]
            total = norm(gradients, slip)
            scale = limit / total if total > limit else 1.0
            changed = [None if gradient is None else gradient * scale for gradient in gradients]
            return {NORM: total, CLIPPED: changed, BEFORE: total}

        return fields

    simulations = [form(slip) for slip in slips for form in (simulate, everywhere)]
    return {"simulate": simulations[0], "also": tuple(simulations[1:])}


def as_ratios(*slips: str) -> dict[str, Any]:
    return forms(RATIOS, lambda case, slip: ratios(case.inputs["before"], case.inputs["after"], slip), slips)


def as_threshold(*slips: str) -> dict[str, Any]:
    return forms(THRESHOLD, lambda case, slip: percentile(case.inputs["norms"], case.inputs["percent"], slip), slips)


def forms(field: str, compute: Callable[[Case, str], Any], slips: tuple[str, ...]) -> dict[str, Any]:
    simulations = [partial(lambda slip, case: {field: compute(case, slip)}, slip) for slip in slips]
    return {"simulate": simulations[0], "also": tuple(simulations[1:])}


def as_clipped(slip: str, *fields: str) -> Simulation:
    return lambda case: {
        field: clipped(case.inputs["gradients"], case.inputs["limit"], slip)[field] for field in fields
    }


def made(
    kind: str,
    gradients: list[Any],
    limit: float,
    before: list[Any],
    after: list[Any],
    norms: list[float],
    percent: float,
) -> Case:
    arrays = [[None if each is None else np.asarray(each, np.float64) for each in gradients]]
    arrays += [[np.asarray(each, np.float64) for each in weights] for weights in (before, after)]
    inputs = dict(zip(("gradients", "before", "after"), arrays, strict=True))
    return Case(kind, {**inputs, "limit": limit, "norms": norms, "percent": percent})


def tensors(rng: np.random.Generator, count: int) -> list[Array]:
    """Arrays with one to three axes, of different sizes."""
    shapes: list[tuple[int, ...]] = [(3,), (2, 4), (5,), (1, 2), (2, 1, 3)]
    return [
        np.asarray(rng.uniform(0.5, 2.0) * rng.normal(size=shapes[place % len(shapes)]))
        for place in rng.permutation(max(count, 2))[:count]
    ]


def case(rng: np.random.Generator, kind: str, missing: int, share: float, percent: float = -1) -> Case:
    """A limit of `share` times the global norm; updates of different sizes; norms with a long tail."""
    gradients: list[Array | None] = [*tensors(rng, int(rng.integers(3, 6)) if missing else 5)]
    for place in rng.permutation(len(gradients))[:missing]:
        gradients[place] = None
    before = tensors(rng, 3)
    updates = [rng.uniform(0.05, 0.3) * rng.normal(size=weights.shape) for weights in before]
    count = int(rng.integers(12, 25))
    norms = [float(value) for value in np.exp(rng.normal(size=count))]
    percent = percent if percent >= 0 else float(rng.choice([rng.uniform(30, 45), rng.uniform(55, 70)]))
    if kind == BROKEN:
        for value in (np.nan, np.inf, np.nan, np.inf):
            norms.insert(int(rng.integers(len(norms) + 1)), value)
    after = [weights + update for weights, update in zip(before, updates, strict=True)]
    return made(kind, gradients, float(share * norm(gradients)), before, after, norms, percent)


def draw(rng: np.random.Generator) -> list[Case]:
    """Norms above and below the limit, no gradient, norms that are not finite, and both ends of the percentiles."""
    return [
        case(rng, FINITE, 0, 0.3),
        case(rng, FINITE, 1, float(rng.uniform(1.5, 3)), percent=float(rng.uniform(96, 99))),  # beyond the last but one
        case(rng, FINITE, 2, 0.6, percent=100.0),
        case(rng, FINITE, 0, 0.8, percent=0.0),
        case(rng, BROKEN, 0, 0.15),
        case(rng, BROKEN, 1, float(rng.uniform(1.2, 2))),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Any share, one to five tensors, percentiles from 0 to 100; single numbers and zeros among all of these.

    Norms may be one alone, equal to each other, 0, or larger than a thousand.
    """
    drawn = case(rng, FINITE if rng.integers(2) else BROKEN, int(rng.integers(0, 2)), float(rng.uniform(0.05, 3)))
    inputs = {**drawn.inputs, "percent": float(rng.choice([0.0, 50.0, 100.0, rng.uniform(0, 100)]))}
    if rng.integers(4) == 0:
        shapes: tuple[tuple[int, ...], ...] = ((), (12,))[: rng.integers(1, 3)]
        inputs |= {name: [np.asarray(rng.uniform(1, 3, each)) for each in shapes] for name in ("gradients", "before")}
        inputs["after"] = [weights + rng.normal(0, 0.1, weights.shape) for weights in inputs["before"]]
        inputs["limit"] = float(rng.uniform(0.05, 3) * norm(inputs["gradients"]))
    if rng.integers(6) == 0:
        inputs["gradients"] = [None if each is None else np.zeros_like(each) for each in inputs["gradients"]]
    if rng.integers(6) == 0:
        inputs["after"] = [inputs["before"][0].copy(), *inputs["after"][1:]]
    if rng.integers(3) == 0:
        inputs["norms"] = [[*inputs["norms"][:3], 1e5 * rng.random(), 0.0, 0.0], [2e3], [0.5] * 2][rng.integers(3)]
    return Case("domain", inputs)


QUESTION = Description(
    id="03d-gradients",
    parts=(
        Graded("global norm", 3, (NORM,)),
        Graded("update ratios", 3, (RATIOS,)),
        Graded("threshold", 3, (THRESHOLD,), on=(FINITE,)),
        Graded("norms that are not finite", 2, (THRESHOLD,), on=(BROKEN,)),
        Graded("clipped gradients", 2, (CLIPPED,)),
        Graded("norm before clipping", 1, (BEFORE,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "sum-of-norms",
            "the norms of the tensors were added up; the global norm is that of all entries as one vector",
            "the norm of [3] and [4] together",
            **as_norm("sum"),
        ),
        Mistake(
            "mean-of-norms",
            "this is the mean of the tensors' norms, or the largest of them",
            "the norm of all entries as one vector",
            **as_norm("mean", "largest"),
        ),
        Mistake(
            "no-root",
            "this is the sum of squares, without the root",
            "the norm of [3, 4]",
            **as_norm("no root"),
        ),
        Mistake(
            "mean-of-squares",
            "the squares were averaged: this size does not grow with the number of parameters, as the norm does",
            "what is under the root",
            **as_norm("rms"),
        ),
        Mistake(
            "sum-of-magnitudes",
            "this is the sum of the magnitudes, or the largest of them",
            "the 2-norm of [3, 4] is 5",
            **as_norm("absolute", "largest entry"),
        ),
        Mistake(
            "ratio-inverse",
            "the ratio is upside down: a weight divided by its update",
            "the size of the result: usual values are near a thousandth",
            **as_ratios("inverse"),
        ),
        Mistake(
            "not-subtracted",
            "the size of the new weights was divided by that of the old ones; the update is their difference",
            "the ratio of a step that changes nothing: 0",
            **as_ratios("not subtracted"),
        ),
        Mistake(
            "lengths-subtracted",
            "the lengths were subtracted and not the weights: an update that only turns a weight seems to be 0",
            "the update from [1, 0] to [0, 1]",
            **as_ratios("lengths subtracted"),
        ),
        Mistake(
            "relative-to-new",
            "the update was divided by the size of the *new* weights",
            "which of the two arguments is the denominator",
            **as_ratios("of the new"),
        ),
        Mistake(
            "another-size",
            "the ratio is one of standard deviations, of magnitudes or of squares; the question asks for 2-norms",
            "the definition of the ratio",
            **as_ratios("std", "absolute", "squares"),
        ),
        Mistake(
            "largest-for-percentile",
            "the threshold is the largest norm, so it never clips anything like what was recorded",
            "what `percent` changes",
            **as_threshold("largest"),
        ),
        Mistake(
            "percent-ignored",
            "the threshold is the mean or the median, or the mean and two deviations, whatever `percent` is",
            "what `percent` changes",
            **as_threshold("median", "mean", "two deviations"),
        ),
        Mistake(
            "from-the-top",
            "the threshold has `percent` of the norms above it; they must be below it",
            "the threshold for 95 percent: few norms are above it",
            **as_threshold("from the top"),
        ),
        Mistake(
            "share-of-the-largest",
            "the threshold is a share of the largest norm; a percentile counts norms",
            "the 50th percentile: half of the norms are below it",
            **as_threshold("share of the largest"),
        ),
        Mistake(
            "not-interpolated",
            "the threshold is always one of the norms; between two of them it must be interpolated",
            "the median of two norms",
            **as_threshold("lower", "higher", "nearest", "by length"),
        ),
        Mistake(
            "not-sorted",
            "the norm at that place of the *unsorted* list was taken",
            "the order of the norms",
            **as_threshold("not sorted"),
        ),
        Mistake(
            "infinite-norms-counted",
            "norms that are not finite count as norms: nan was removed and infinity kept, or nan became 0",
            "what inf and nan say about a usual step: nothing",
            **as_threshold("nan alone removed", "nan as 0"),
        ),
        Mistake(
            "each-tensor-alone",
            "each tensor was clipped by its own norm, which turns the direction of the whole gradient",
            "how many factors there are",
            as_clipped("each alone", CLIPPED),
        ),
        Mistake(
            "by-value",
            "each entry was clipped, which turns the direction of the whole gradient",
            "the direction of [3, 4] after clipping to 1",
            as_clipped("by value", CLIPPED),
        ),
        Mistake(
            "always-scaled",
            "gradients below the threshold were scaled up to it",
            "the factor: never above 1",
            as_clipped("always", CLIPPED),
        ),
        Mistake(
            "step-dropped",
            "gradients above the threshold became 0",
            "what the norm of a clipped gradient is",
            as_clipped("set to zero", CLIPPED),
        ),
        Mistake(
            "measured-after",
            "the norm was measured after clipping: it never exceeds the threshold, and spikes cannot be seen in it",
            "when the norm is computed",
            as_clipped("measured after", BEFORE),
        ),
    ),
    visible=(
        made(
            FINITE,
            [[3.0], [[4.0, 0.0]]],
            1.0,
            [[1, 0], [[2, -1], [0, 2]]],
            [[0, 1], [[2, -1.3], [0.4, 2]]],
            [1, 9, 2, 4],
            50,
        ),
        made(
            BROKEN,
            [[1.0, 2.0], None, [2.0, 0.5, 1.0]],
            6.0,
            [[1, 2, 2]],
            [[1.1, 2, 1.8]],
            [2, np.inf, 5, np.nan, 1, 3, 8],
            30,
        ),
        made(
            "six norms, 30 percent",
            [[0.5, -0.2], [[0.1]], None],
            0.4,
            [[2, 1, -1, 0.5]],
            [[2.2, 1, -1.3, 0.6]],
            [0.4, 0.1, 3.0, 0.2, 0.7, 0.3],
            30,
        ),
    ),
    draw=draw,
    domain=domain,
)
