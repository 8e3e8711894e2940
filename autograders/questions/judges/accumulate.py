"""03a-accumulate: equal to the big batch for even and uneven micro-batches and for a short last window.

The reference is least squares by hand in NumPy: no autograd, no optimizer, nothing that the student's code used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03a-accumulate"
PARTS = (("even", 3.0), ("uneven", 3.0), ("short last window", 2.0))
TOLERANCE = 1e-6  # shares computed in float32 are right too; no wrong answer comes closer than 1e-3
_FEATURES = 4


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two epochs of each kind: equal micro-batches, unequal ones in full windows, an incomplete last window."""
    plans = [
        ("even", [4] * 6, 3),
        ("even", [5] * 4, 2),
        ("uneven", _unequal(rng, 6), 3),
        ("uneven", _unequal(rng, 4), 2),
        ("short last window", [4] * 7, 3),
        ("short last window", [3] * 3, 5),
    ]
    return [HiddenCase(kind, _epoch(rng, sizes, accumulate)) for kind, sizes, accumulate in plans]


def _unequal(rng: np.random.Generator, windows: int) -> list[int]:
    # Neighbours always differ, so every window is uneven.
    return [int(size) for _ in range(windows // 2) for size in rng.choice([1, 2, 4, 7], size=2, replace=False)]


def _epoch(rng: np.random.Generator, sizes: list[int], accumulate: int) -> dict[str, Any]:
    true_weight = rng.normal(size=(1, _FEATURES))
    x = [rng.normal(size=(size, _FEATURES)) for size in sizes]
    y = [rows @ true_weight.T + 0.3 * rng.normal(size=(len(rows), 1)) for rows in x]
    return {
        "x": x,
        "y": y,
        "weight": rng.normal(size=(1, _FEATURES)),
        "learning_rate": 0.1,
        "accumulate": accumulate,
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All of a kind's points when its weights after the epoch equal the big batch's to 1e-6."""
    pairs = list(zip(cases, observations, strict=True))
    parts = tuple(
        grade_part(name, points, [pair for pair in pairs if pair[0].kind == name], _weight, _right, TOLERANCE)
        for name, points in PARTS
    )
    return Verdict(ID, parts, misconception=_misconception(pairs))


def _misconception(pairs: list[tuple[HiddenCase, Observation]]) -> str | None:
    found = [(case, _weight(seen)[0]) for case, seen in pairs]
    if first_match([("right", _right)], found, TOLERANCE):
        return None
    return first_match(
        [
            ("no-division", lambda case: run(case, weight="one")),
            ("divide-by-k", lambda case: run(case, weight="1/K")),
            ("mean-of-means", lambda case: run(case, weight="1/window")),
            ("last-window-dropped", lambda case: run(case, last="dropped")),
            ("divide-by-k", lambda case: run(case, weight="1/K", last="dropped")),
            ("never-zeroed", lambda case: run(case, zero="never")),
            ("never-zeroed", lambda case: run(case, weight="1/K", zero="never")),
            ("zeroed-too-often", lambda case: run(case, zero="micro-batch")),
            ("zeroed-too-often", lambda case: run(case, weight="1/K", zero="micro-batch")),
            (
                "step-every-batch",
                lambda case: run(case, weight="one", step="micro-batch", zero="micro-batch"),
            ),
            (
                "step-every-batch",
                lambda case: run(case, weight="1/K", step="micro-batch", zero="micro-batch"),
            ),
            ("never-steps", lambda case: case.inputs["weight"]),
        ],
        found,
        TOLERANCE,
    )


def _weight(observation: Observation) -> tuple[Any, str]:
    return read_field(observation, "epoch", "weight")


def _right(case: HiddenCase) -> np.ndarray:
    return run(case)


def run(
    case: HiddenCase,
    *,
    weight: Literal["n/N", "1/K", "1/window", "one"] = "n/N",
    last: Literal["stepped", "dropped"] = "stepped",
    zero: Literal["window", "never", "micro-batch"] = "window",
    step: Literal["window", "micro-batch"] = "window",
) -> np.ndarray:
    """The weights after one epoch of SGD on mean squared error, done as the arguments say. Shape [1, features]."""
    w = case.inputs["weight"].copy()
    gradient = np.zeros_like(w)
    batches = list(zip(case.inputs["x"], case.inputs["y"], strict=True))
    size = case.inputs["accumulate"]
    for start in range(0, len(batches), size):
        window = batches[start : start + size]
        if len(window) < size and last == "dropped":
            break
        examples = sum(len(x) for x, _ in window)
        for x, y in window:
            share = {"n/N": len(x) / examples, "1/K": 1 / size, "1/window": 1 / len(window), "one": 1.0}[weight]
            if zero == "micro-batch":
                gradient = np.zeros_like(w)
            gradient = gradient + share * (2 / len(x)) * (x @ w.T - y).T @ x
            if step == "micro-batch":
                w = w - case.inputs["learning_rate"] * gradient
        if step == "window":
            w = w - case.inputs["learning_rate"] * gradient
        if zero == "window":
            gradient = np.zeros_like(w)
    return w
