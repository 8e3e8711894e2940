"""03d-nan: four losses whose textbook forms give nan in a value or in a gradient, and the scale of an FP16 run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
VALUE = {name: f"{name}.value" for name in ("distance", "masked", "entropy", "cosine")}
GRADIENT = {name: f"{name}.gradient" for name in VALUE}
SCALES = "scales.value"


def distance(case: Case, eps: float = 0.0, least: float = 0.0) -> dict[str, Any]:
    """sqrt(d² + eps), or the root of d² kept above `least`, with the gradient 0 for equal rows."""
    difference = case.inputs["a"] - case.inputs["b"]
    squares = (difference**2).sum(1)
    value = np.sqrt(np.maximum(squares + eps, least))
    slope = case.inputs["slopes"] / np.where(value > 0, value, 1.0) * (squares + eps > least)
    gradient = slope[:, None] * difference
    return {VALUE["distance"]: value, GRADIENT["distance"]: [gradient, -gradient]}


def distance_of_roots(case: Case) -> dict[str, Any]:
    """Right, with nan in the gradient of equal rows."""
    right = distance(case)
    equal = (case.inputs["a"] == case.inputs["b"]).all(1)
    return {
        **right,
        GRADIENT["distance"]: [np.where(equal[:, None], np.nan, each) for each in right[GRADIENT["distance"]]],
    }


def masked(case: Case, count: str = "mask", least: float = 0.0) -> dict[str, Any]:
    x, mask = case.inputs["x"], case.inputs["mask"]
    n = max(mask.sum(), 1) if count == "mask" else x.size
    kept = np.where(mask, x, 1.0)
    gradient = np.where(mask & (kept >= least), 1 / kept, 0.0) / n
    value = np.log(np.maximum(kept, least)).sum() / n
    return {VALUE["masked"]: float(value), GRADIENT["masked"]: [gradient * case.inputs["slopes"][0]]}


def masked_after(case: Case, by_product: bool) -> dict[str, Any]:
    """The logarithm of all entries, and then the mask: 0 times infinity is nan."""
    right, hidden = masked(case), case.inputs["x"][~case.inputs["mask"]]
    gradient = right[GRADIENT["masked"]][0]
    at_zero = ~case.inputs["mask"] & (case.inputs["x"] == 0)
    value = right[VALUE["masked"]] if not (by_product and (hidden <= 0).any()) else np.nan
    return {VALUE["masked"]: value, GRADIENT["masked"]: [np.where(at_zero, np.nan, gradient)]}


def of_empty(case: Case) -> dict[str, Any]:
    return {VALUE["masked"]: masked(case)[VALUE["masked"]] if case.inputs["mask"].any() else np.nan}


def entropy(case: Case, base: float = np.e, sign: float = 1.0, broken: str = "") -> dict[str, Any]:
    """In nats, or in the unit of another base; `broken` says what is nan where a probability underflows."""
    logits = case.inputs["logits"]
    shifted = logits - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    p = np.exp(log_p)
    value = -(p * log_p).sum(1)
    gradient = -p * (log_p + value[:, None]) * case.inputs["slopes"][:, None]
    nan = (p == 0).any(1)
    if broken:
        gradient = np.where(nan[:, None], np.nan, gradient)
        value = np.where(nan, np.nan, value) if broken == "both" else value
    scale = sign / np.log(base)
    return {VALUE["entropy"]: scale * value, GRADIENT["entropy"]: [scale * gradient]}


def overflowed(case: Case) -> dict[str, Any]:
    """The softmax by exp / sum, which overflows at large logits."""
    right, logits = entropy(case, broken="both"), case.inputs["logits"]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    nan = ~np.isfinite(p).all(1) | (p == 0).any(1)
    value = np.where(nan, np.nan, right[VALUE["entropy"]])
    return {
        VALUE["entropy"]: value,
        GRADIENT["entropy"]: [np.where(nan[:, None], np.nan, right[GRADIENT["entropy"]][0])],
    }


def cosine(case: Case, broken: str = "", eps: float = 0.0) -> dict[str, Any]:
    """0 for rows of zeros, without a gradient; `broken` and `eps` say what happens to these rows instead."""
    a, b, slopes = case.inputs["a"], case.inputs["b"], case.inputs["slopes"][:, None]
    lengths = [np.linalg.norm(each, axis=1, keepdims=True) for each in (a, b)]
    zero = (lengths[0] == 0) | (lengths[1] == 0)
    safe = [np.where(length == 0, 1.0, length) for length in lengths]
    units = [a / safe[0], b / safe[1]]
    value = (units[0] * units[1]).sum(1, keepdims=True)
    gradients = [
        slopes * np.where(zero, 0.0, units[1 - place] - value * units[place]) / safe[place] for place in (0, 1)
    ]
    if broken == "gradient":
        gradients = [np.where(zero, np.nan, each) for each in gradients]
    if broken == "both":
        value, gradients = np.where(zero, np.nan, value), [np.where(zero, np.nan, each) for each in gradients]
    if eps:
        far = [
            np.where(lengths[place] == 0, slopes * (units if broken == "units" else (a, b))[1 - place] / eps, each)
            for place, each in enumerate(gradients)
        ]
        gradients = far
    return {VALUE["cosine"]: value[:, 0], GRADIENT["cosine"]: gradients}


def scales(case: Case, slip: str = "") -> dict[str, Any]:
    scale, steps, used = case.inputs["scale"], 0, []
    for finite in case.inputs["finite"]:
        used.append(scale)
        if not finite:
            scale = scale / case.inputs["backoff"] if slip == "divided" else scale * case.inputs["backoff"]
            steps = steps if slip == "not reset" else 0
            scale = used[-1] if slip == "never lowered" else scale
            continue
        steps += 1
        limit = case.inputs["interval"] + (slip == "one late")
        if steps >= limit and slip != "never raised":
            scale *= case.inputs["growth"]
            steps = steps if slip == "raised for ever" else 0
    used = [*used[1:], scale] if slip == "after the step" else used
    return {SCALES: [float(each) for each in used]}


def reference(case: Case) -> dict[str, Any]:
    return {**distance(case), **masked(case), **entropy(case), **cosine(case), **scales(case)}


def only(simulate: Callable[[Case], dict[str, Any]], *fields: str) -> Simulation:
    return lambda case: {field: simulate(case)[field] for field in fields}


def case(rng: np.random.Generator, kind: str, rows: int, size: int, largest: float) -> Case:
    """Equal rows, rows of zeros, close rows, hidden zeros and negative numbers, and logits of very different size."""
    a, b = vectors = rng.normal(size=(2, rows, size))
    vectors[np.linalg.norm(vectors, axis=2) < 0.02] = 0.5  # a row of one number can be shorter than the wording allows
    order = rng.permutation(rows)
    equal, zero_a, zero_b, close = (order[place % rows] for place in range(4))
    b[equal] = a[equal]
    if rows > 3:
        a[zero_a], b[zero_b] = 0.0, 0.0
        direction = rng.normal(size=size)
        b[close] = a[close] + 5e-4 * direction / np.linalg.norm(direction)
    x = np.exp(rng.uniform(np.log(1e-9), np.log(1e3), (rows, size)))
    mask = rng.random((rows, size)) < 0.5
    hidden = np.flatnonzero(~mask)
    x.flat[hidden[::2]] = 0.0
    x.flat[hidden[1::2]] = -rng.uniform(0.5, 2.0)
    logits = rng.normal(size=(rows, size + 1))
    logits[order[: (rows + 1) // 2]] *= largest
    return Case(kind, {"a": a, "b": b, "x": x, "mask": mask, "logits": logits, **run(rng), "slopes": slopes(rng, rows)})


def slopes(rng: np.random.Generator, rows: int) -> Array:
    return rng.uniform(0.5, 2.0, rows) * rng.choice([-1.0, 1.0], rows)


def run(rng: np.random.Generator) -> dict[str, Any]:
    """Steps of an FP16 run with overflows before and after the scale is raised."""
    interval = int(rng.integers(2, 5))
    finite = [True] * (interval - 1) + [False] + [True] * (2 * interval + 1) + [False, False] + [True] * interval
    return {
        "finite": [*finite, bool(rng.integers(2)), True],
        "scale": float(2 ** rng.integers(8, 17)),
        "growth": float(rng.choice([2.0, 1.5])),
        "backoff": float(rng.choice([0.5, 0.25])),
        "interval": interval,
    }


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has an empty mask, a full one, one with a single entry, and logits of ten thousand."""
    first = case(rng, "usual", 6, int(rng.integers(3, 5)), 10.0)
    large = case(rng, "large", 5, 3, float(rng.uniform(5_000, 9_000)))
    empty = case(rng, "nothing kept", 4, 2, 1.0)
    empty.inputs["mask"][:] = False
    full = case(rng, "everything kept", 2, 4, 30.0)
    full.inputs["mask"][:] = True
    full.inputs["x"][:] = np.exp(rng.uniform(-20, 3, full.inputs["x"].shape))
    alone = case(rng, "one kept", 1, 3, 5.0)
    alone.inputs["mask"][:] = [[False, True, False]]
    alone.inputs["x"][:, 1] = rng.uniform(0.01, 0.5)
    return [first, large, empty, full, alone]


def domain(rng: np.random.Generator) -> Case:
    """One to six rows of one to four numbers, or twelve rows; logits and entries up to the ends of their ranges.

    Hidden entries may be positive. All rows may be equal, or zeros, and runs have one step or many, in any order.
    """
    rows = int(rng.choice([12, int(rng.integers(1, 7))], p=[0.12, 0.88]))
    drawn = case(rng, "domain", rows, int(rng.integers(1, 5)), 10 ** rng.uniform(0, 3.3))
    inputs, shape = dict(drawn.inputs), drawn.inputs["x"].shape
    if rng.integers(4) == 0:
        inputs["mask"][:] = bool(rng.integers(2))
        if inputs["mask"].any():
            inputs["x"][:] = 10 ** rng.uniform(-9, 3, shape)
    elif rng.integers(3) == 0:
        inputs["x"] = np.where(inputs["mask"], inputs["x"], rng.uniform(0.5, 20.0, shape))
    if rng.integers(6) == 0:
        inputs["x"] = np.where(inputs["mask"], rng.choice([1e-9, 1.0, 1e3], shape), inputs["x"])
    if rng.integers(6) == 0:
        inputs["logits"] = rng.choice([-1e4, 0.0, 1e4], inputs["logits"].shape)
    if rng.integers(6) == 0:
        inputs["a"], inputs["b"] = rng.choice([-10.0, 0.0, 10.0], (2, *shape))
    if rng.integers(6) == 0:
        inputs["b"] = rng.choice([0.0, 1.0]) * inputs["a"]
    kind = "domain"
    if rng.integers(6) == 0:
        kind = "rows that are hardly longer than 0.01"
        for name, low, high in (("a", 0.011, 0.015), ("b", 0.02, 0.03)):
            rows_of = rng.normal(size=shape)
            inputs[name] = rng.uniform(low, high, (rows, 1)) * rows_of / np.linalg.norm(rows_of, axis=1, keepdims=True)
    if rng.integers(2):
        finite = [bool(step) for step in rng.random(rng.choice([1, 6, 24])) < rng.choice([0.0, 0.5, 0.8, 1.0])]
        run_settings = {"interval": int(rng.choice([2, 5, 12])), "scale": float(rng.choice([0.5, 1.0, 2.0**16]))}
        inputs |= {"finite": finite, **run_settings}
    return Case(kind, inputs)


def visible(name: str, a: Any, b: Any, x: Any, mask: Any, logits: Any, **inputs: Any) -> Case:
    arrays = {
        name: np.asarray(values, np.float64) for name, values in (("a", a), ("b", b), ("x", x), ("logits", logits))
    }
    usual = {"finite": [True, False, *[True] * 5, False, True], "scale": 1024.0, "growth": 2.0, "backoff": 0.5}
    slopes = np.array([1.0, -2.0, 0.5, 1.5][: len(a)])
    return Case(name, {**arrays, "mask": np.asarray(mask), "slopes": slopes, **usual, "interval": 2, **inputs})


QUESTION = Description(
    id="03d-nan",
    parts=(
        Graded("distance", 1, (VALUE["distance"],)),
        Graded("distance, gradient", 2, (GRADIENT["distance"],)),
        Graded("masked mean", 1, (VALUE["masked"],)),
        Graded("masked mean, gradient", 2, (GRADIENT["masked"],)),
        Graded("entropy", 1, (VALUE["entropy"],)),
        Graded("entropy, gradient", 2, (GRADIENT["entropy"],)),
        Graded("cosine", 1, (VALUE["cosine"],)),
        Graded("cosine, gradient", 2, (GRADIENT["cosine"],)),
        Graded("loss scale", 2, (SCALES,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "root-of-zero",
            "the distance of equal rows is 0, and its gradient nan: the slope of a root is infinite at 0",
            "what the root is taken of, before it is taken",
            only(distance_of_roots, GRADIENT["distance"]),
        ),
        Mistake(
            "epsilon-under-root",
            "a small number under the root changes small distances and their gradients",
            "the distance of two rows that differ by 0.0005",
            lambda case: distance(case, eps=1e-8),
            also=tuple(
                partial(distance, eps=eps, least=least)
                for eps, least in ((1e-6, 0.0), (1e-7, 0.0), (1e-9, 0.0), (1e-10, 0.0), (0.0, 1e-8), (0.0, 1e-6))
            ),
        ),
        Mistake(
            "mask-after-logarithm",
            "a logarithm was taken of hidden entries, and a mask afterwards: 0 times infinity is nan in the gradient",
            "what `torch.where` does with the gradient of the side that it did not take",
            lambda case: masked_after(case, by_product=False),
            also=(lambda case: masked_after(case, by_product=True),),
        ),
        Mistake(
            "empty-mask",
            "the mean of nothing is nan",
            "the number of entries by which you divide, where the mask hides all of them",
            of_empty,
        ),
        Mistake(
            "hidden-entries-counted",
            "the sum was divided by the number of all entries",
            "over how many entries the mean is",
            lambda case: masked(case, count="all"),
        ),
        Mistake(
            "entries-clamped",
            "small entries were kept above a limit, so their logarithms are wrong and their gradients 0",
            "the logarithm of 1e-9",
            lambda case: masked(case, least=1e-8),
            also=tuple(partial(masked, least=least) for least in (1e-7, 1e-6)),
        ),
        Mistake(
            "log-of-softmax",
            "the logarithm was taken of a probability that had underflowed to 0",
            "whether log p can be computed without computing p first",
            lambda case: entropy(case, broken="both"),
            also=(overflowed,),
        ),
        Mistake(
            "nan-replaced",
            "the value was repaired and the gradient is still nan: replacing nan afterwards is too late",
            "the operation that made the nan",
            only(lambda case: entropy(case, broken="gradient"), GRADIENT["entropy"]),
        ),
        Mistake(
            "entropy-sign",
            "the entropy has the wrong sign",
            "the entropy of two equal probabilities: ln 2",
            lambda case: entropy(case, sign=-1.0),
        ),
        Mistake(
            "bits",
            "the entropy is in bits; the question asks for nats",
            "the base of the logarithm",
            lambda case: entropy(case, base=2.0),
        ),
        Mistake(
            "zero-divided-by-zero",
            "a row of zeros gives nan: 0 divided by 0",
            "the similarity of a row of zeros, as the question defines it",
            lambda case: cosine(case, broken="both"),
        ),
        Mistake(
            "similarity-replaced",
            "the similarity of a row of zeros is 0, and its gradient nan: the division was still computed",
            "what is divided by, before the division",
            only(lambda case: cosine(case, broken="gradient"), GRADIENT["cosine"]),
        ),
        Mistake(
            "divided-by-epsilon",
            "the similarity of a row of zeros is 0, and its gradient huge: the other row divided by a tiny number",
            "the gradient of a row of zeros, as the question defines it",
            only(lambda case: cosine(case, "units", 1e-12), GRADIENT["cosine"]),
            also=tuple(
                only(partial(cosine, broken=kind, eps=eps), GRADIENT["cosine"])
                for kind, eps in (("units", 1e-8), ("rows", 1e-8), ("rows", 1e-12), ("units", 1e-6), ("rows", 1e-6))
            ),
        ),
        Mistake(
            "zero-row-moves",
            "the similarity of a row of zeros is 0, and its gradient is not: it is the direction of the other row",
            "the gradient of a row of zeros, as the question defines it",
            only(lambda case: cosine(case, "units", 1.0), GRADIENT["cosine"]),
            also=(only(lambda case: cosine(case, "rows", 1.0), GRADIENT["cosine"]),),
        ),
        Mistake(
            "count-not-reset",
            "an overflow did not start the count of good steps anew",
            "how many good steps *in a row* it takes",
            lambda case: scales(case, "not reset"),
        ),
        Mistake(
            "scale-after-step",
            "these are the scales after each step; the question asks for those used in each step",
            "the first entry",
            lambda case: scales(case, "after the step"),
        ),
        Mistake(
            "raised-for-ever",
            "after the scale was raised once, every further good step raised it again",
            "what happens to the count when the scale is raised",
            lambda case: scales(case, "raised for ever"),
        ),
        Mistake(
            "one-step-late",
            "the scale was raised one good step too late",
            "`interval` good steps in a row are enough",
            lambda case: scales(case, "one late"),
        ),
        Mistake(
            "raised-by-overflow",
            "an overflow raised the scale, or did not lower it",
            "the factor `backoff`, which is below 1",
            lambda case: scales(case, "divided"),
            also=(lambda case: scales(case, "never lowered"),),
        ),
        Mistake(
            "never-raised",
            "the scale is never raised",
            "what `growth` does",
            lambda case: scales(case, "never raised"),
        ),
    ),
    visible=(
        visible(
            "an equal row, a row of zeros, a hidden zero",
            [[1, 2], [3, 4], [0, 0], [0.0005, 1]],
            [[1, 2], [0, 0], [1, 1], [0, 1]],
            [[1, 0], [2, -1], [3, 1e-9], [4, 0]],
            [[True, False], [True, False], [False, True], [True, False]],
            [[0, 0, 0], [1, 2, 3], [800, 801, 799], [-1000, 5, 0]],
        ),
        visible("nothing kept", [[1, 0]], [[0, 2]], [[1, 2]], [[False, False]], [[3, 3]], interval=3),
    ),
    draw=draw,
    domain=domain,
)
