"""03b-baseline: majority accuracy, the loss of the best constant prediction, the loss before training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03b-baseline"
PARTS = (("majority_accuracy", 2.0), ("constant_loss", 4.0), ("initial_loss", 2.0))
TOLERANCE = 1e-5


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two balanced label sets, four skewed ones, and two in which some outputs never occur."""
    # The numbers of classes are drawn too: with fixed ones, the losses before training could be known beforehand.
    kinds = ["balanced"] * 2 + ["skewed"] * 4 + ["unused outputs"] * 2
    cases = []
    for kind in kinds:
        used = int(rng.integers(2, 12))
        classes = used + (int(rng.integers(1, 12)) if kind == "unused outputs" else 0)
        cases.append(HiddenCase(kind, _labels(rng, used, classes, skewed=kind != "balanced")))
    return cases


def _labels(rng: np.random.Generator, used: int, classes: int, *, skewed: bool) -> dict[str, Any]:
    """Labels of `used` classes; skewed, training has a majority class that is not the one in validation."""
    if not skewed:
        return {
            "y_train": rng.permutation(np.repeat(np.arange(used), 12)),
            "y_val": rng.permutation(np.repeat(np.arange(used), 5)),
            "classes": classes,
        }
    train_majority, val_majority = rng.choice(used, 2, replace=False)
    train, val = rng.integers(3, 9, used), rng.integers(2, 6, used)
    train[train_majority] += int(rng.integers(25, 40))
    val[val_majority] += int(rng.integers(12, 20))
    return {
        "y_train": rng.permutation(np.repeat(np.arange(used), train)),
        "y_val": rng.permutation(np.repeat(np.arange(used), val)),
        "classes": classes,
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Each number over all cases; the known mistakes are recomputed from the same labels."""
    pairs = list(zip(cases, observations, strict=True))
    right = {"majority_accuracy": _majority, "constant_loss": _constant_loss, "initial_loss": _initial_loss}
    parts = tuple(
        grade_part(name, points, pairs, lambda seen, name=name: read_field(seen, name, name), right[name], TOLERANCE)  # type: ignore[misc]
        for name, points in PARTS
    )
    misconception = None
    for part in parts:
        if part.points < part.maximum and misconception is None:
            found = [(case, read_field(seen, part.name, part.name)[0]) for case, seen in pairs]
            misconception = first_match(_MISTAKES[part.name], found, TOLERANCE) or _constant(found)
    return Verdict(ID, parts, misconception=misconception)


def _constant(found: list[tuple[HiddenCase, Any]]) -> str | None:
    """Whether one number was given for all label sets."""
    first = found[0][1]
    same = first is not None and all(agree(value, first, TOLERANCE) for _, value in found)
    return "constant-answer" if same else None


def _counts(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.bincount(labels, minlength=classes)


def _accuracy(case: HiddenCase, fitted_on: str = "y_train", scored_on: str = "y_val") -> float:
    majority = int(_counts(case.inputs[fitted_on], case.inputs["classes"]).argmax())
    return float((case.inputs[scored_on] == majority).mean())


def _majority(case: HiddenCase) -> float:
    return _accuracy(case)


def _loss(case: HiddenCase, fitted_on: str = "y_train", scored_on: str = "y_val") -> float:
    counts = _counts(case.inputs[fitted_on], case.inputs["classes"])
    return float(-np.log(counts[case.inputs[scored_on]] / counts.sum()).mean())


def _constant_loss(case: HiddenCase) -> float:
    return _loss(case)


def _initial_loss(case: HiddenCase) -> float:
    return math.log(case.inputs["classes"])


_MISTAKES: dict[str, list[tuple[str, Any]]] = {
    "majority_accuracy": [
        ("peeks-at-validation", lambda case: _accuracy(case, fitted_on="y_val")),
        ("scored-on-training", lambda case: _accuracy(case, scored_on="y_train")),
        ("chance-level", lambda case: 1 / case.inputs["classes"]),
        ("percent", lambda case: 100 * _majority(case)),
    ],
    "constant_loss": [
        ("peeks-at-validation", lambda case: _loss(case, fitted_on="y_val")),
        ("scored-on-training", lambda case: _loss(case, scored_on="y_train")),
        ("chance-level", _initial_loss),
        ("log-base-2", lambda case: _constant_loss(case) / math.log(2)),
        ("log-base-10", lambda case: _constant_loss(case) / math.log(10)),
    ],
    "initial_loss": [
        ("log-base-2", lambda case: math.log2(case.inputs["classes"])),
        ("log-base-10", lambda case: math.log10(case.inputs["classes"])),
        ("classes-seen", lambda case: math.log(len(np.unique(case.inputs["y_train"])))),
    ],
}
