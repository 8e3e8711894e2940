"""03b-inspect: each of five problems found wherever it is, and named nowhere else.

Which data set has which problem is the key: it never enters the student's process, only the data do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.inspect import PROBLEMS

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, read_names

ID = "03b-inspect"
PARTS = tuple((problem, 2.0) for problem in PROBLEMS)
_ROWS, _VALIDATION_ROWS, _FEATURES = 36, 16, 5


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Four clean data sets, three of which look suspicious, and eleven with one problem each, in a random order."""
    makers = [
        ("clean", None, _same),
        ("standardised", None, _standardised),
        ("repeated within training", None, _repeated_within),
        ("imbalanced", None, _imbalanced),
        ("raw pixels", "range", _raw_pixels),
        ("raw pixels in validation only", "range", _raw_validation),
        ("integer inputs", "dtype", _integer_inputs),
        ("float labels", "dtype", _float_labels),
        ("labels from 1", "labels", _labels_from_one),
        ("negative labels", "labels", _negative_labels),
        ("one shared row", "duplicates", _shared_row),
        ("many shared rows", "duplicates", _shared_rows),
        ("one class in validation", "class-stacked", _one_class),
        ("a class missing from validation", "class-stacked", _missing_class),
        ("disjoint classes", "class-stacked", _disjoint_classes),
    ]
    cases = [HiddenCase(kind, make(rng, _clean(rng)), problem) for kind, problem, make in makers]
    return [cases[index] for index in rng.permutation(len(cases))]


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """A problem's points when it is reported for all of its data sets and for no other."""
    reports = {case.kind: read_names(seen, "problems") for case, seen in zip(cases, observations, strict=True)}
    parts = tuple(_grade(problem, points, cases, reports) for problem, points in PARTS)
    found = {kind: report for kind, (report, _) in reports.items() if report is not None}
    return Verdict(ID, parts, misconception=_misconception(cases, found))


def _grade(problem: str, points: float, cases: Sequence[HiddenCase], reports: dict[str, Any]) -> Part:
    for case in cases:
        report, reason = reports[case.kind]
        if report is None:
            return Part(problem, 0.0, points, f"on a data set ({case.kind}): {reason}")
    missed = sum(case.key == problem and problem not in reports[case.kind][0] for case in cases)
    there = sum(case.key == problem for case in cases)
    alarms = [case.kind for case in cases if case.key != problem and problem in reports[case.kind][0]]
    if missed:
        return Part(problem, 0.0, points, f"missed in {missed} of the {there} data sets that have it")
    if alarms:
        return Part(problem, 0.0, points, f"reported for {len(alarms)} data sets that do not have it")
    return Part(problem, points, points, f"found in {there} of {there} data sets, no false alarm")


def _misconception(cases: Sequence[HiddenCase], found: dict[str, set[str]]) -> str | None:
    if len(found) < len(cases):
        return None
    everything = set(PROBLEMS)
    if all(report == everything for report in found.values()):
        return "always-alarm"
    if not any(found.values()):
        return "never-alarm"
    rules = [
        ("range-is-unit", "range" in found["standardised"]),
        ("duplicates-within", "duplicates" in found["repeated within training"]),
        (
            "training-only",
            "range" not in found["raw pixels in validation only"] and "range" in found["raw pixels"],
        ),
        ("inputs-dtype-only", "dtype" not in found["float labels"] and "dtype" in found["integer inputs"]),
        (
            "labels-off-by-one",
            "labels" not in found["labels from 1"] and "labels" in found["negative labels"],
        ),
        ("negative-labels", "labels" not in found["negative labels"] and "labels" in found["labels from 1"]),
        (
            "compare-counts",
            "class-stacked" not in found["disjoint classes"] and "class-stacked" in found["one class in validation"],
        ),
        (
            "same-position-only",
            "duplicates" not in found["one shared row"] and "duplicates" not in found["many shared rows"],
        ),
    ]
    return next((name for name, applies in rules if applies), None)


def _clean(rng: np.random.Generator) -> dict[str, Any]:
    classes = int(rng.integers(3, 6))
    return {
        "x_train": rng.uniform(0.0, 1.0, (_ROWS, _FEATURES)).astype(np.float32),
        "y_train": rng.permutation(np.arange(_ROWS) % classes),
        "x_val": rng.uniform(0.0, 1.0, (_VALIDATION_ROWS, _FEATURES)).astype(np.float32),
        "y_val": rng.permutation(np.arange(_VALIDATION_ROWS) % classes),
        "classes": classes,
    }


def _same(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return data


def _standardised(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "x_train": (data["x_train"] - 0.5) * 8, "x_val": (data["x_val"] - 0.5) * 8}


def _repeated_within(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    x, first, second = data["x_train"].copy(), *rng.choice(_ROWS, 2, replace=False)
    x[second] = x[first]
    return {**data, "x_train": x}


def _imbalanced(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    y_train, y_val = np.zeros(_ROWS, np.int64), np.zeros(_VALIDATION_ROWS, np.int64)
    y_train[: data["classes"]] = y_val[: data["classes"]] = np.arange(data["classes"])
    return {**data, "y_train": rng.permutation(y_train), "y_val": rng.permutation(y_val)}


def _raw_pixels(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "x_train": data["x_train"] * 255, "x_val": data["x_val"] * 255}


def _raw_validation(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "x_val": data["x_val"] * 255}


def _integer_inputs(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    # Wide rows of small integers: distinct almost surely, and within the range that the question allows.
    return {
        **data,
        "x_train": rng.integers(0, 10, (_ROWS, 24)),
        "x_val": rng.integers(0, 10, (_VALIDATION_ROWS, 24)),
    }


def _float_labels(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "y_train": data["y_train"].astype(np.float32), "y_val": data["y_val"].astype(np.float32)}


def _labels_from_one(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "y_train": data["y_train"] + 1, "y_val": data["y_val"] + 1}


def _negative_labels(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "y_train": data["y_train"] - 1, "y_val": data["y_val"] - 1}


def _shared_row(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return _share(rng, data, 1)


def _shared_rows(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return _share(rng, data, 5)


def _share(rng: np.random.Generator, data: dict[str, Any], rows: int) -> dict[str, Any]:
    x_val = data["x_val"].copy()
    into = rng.choice(_VALIDATION_ROWS, rows, replace=False)
    # From rows that have no such position in validation, so that comparing row by row finds none of them.
    x_val[into] = data["x_train"][_VALIDATION_ROWS + rng.choice(_ROWS - _VALIDATION_ROWS, rows, replace=False)]
    return {**data, "x_val": x_val}


def _one_class(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "y_val": np.full(_VALIDATION_ROWS, data["classes"] - 1)}


def _missing_class(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "y_val": np.arange(_VALIDATION_ROWS) % (data["classes"] - 1)}


def _disjoint_classes(_: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    return {
        **data,
        "classes": 4,
        "y_train": np.arange(_ROWS) % 2,
        "y_val": 2 + np.arange(_VALIDATION_ROWS) % 2,
    }
