"""03a-contract: each of five problems found wherever it is, and named nowhere else.

Which batch has which problems is the key: it never enters the student's process, only the batches do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.contract import PROBLEMS

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, read_names

ID = "03a-contract"
PARTS = (("x.shape", 2.0), ("x.dtype", 1.0), ("x.range", 2.0), ("y.shape", 2.0), ("y.dtype", 1.0))
# Twice each, so that a list of answers learned for other batches fits by chance less than once in a thousand times.
_REPEATED = 2

Batch = dict[str, Any]


def _change(**changes: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.random.Generator, Batch], Batch]:
    return lambda _, batch: {**batch, **{name: change(batch[name]) for name, change in changes.items()}}


def _one_hot(labels: np.ndarray) -> np.ndarray:
    return np.eye(int(labels.max()) + 2, dtype=np.int64)[labels]


def _one_entry(entry: float) -> Callable[[np.random.Generator, Batch], Batch]:
    def change(rng: np.random.Generator, batch: Batch) -> Batch:
        x = batch["x"].copy()
        x.flat[rng.integers(x.size)] = entry
        return {**batch, "x": x}

    return change


def _single(rng: np.random.Generator, batch: Batch) -> Batch:
    return {**batch, "x": batch["x"][:1], "y": batch["y"][:1]}


def _grey(rng: np.random.Generator, batch: Batch) -> Batch:
    return {**batch, "x": batch["x"][:, :1]}


def _no_batch(rng: np.random.Generator, batch: Batch) -> Batch:
    # Grey, so that the first dimension of x and the number of labels agree: only the shape of x is wrong.
    return {**batch, "x": batch["x"][0, :1], "y": batch["y"][:1]}


# kind -> (problems, what is done to a good batch of RGB images)
_KINDS: dict[str, tuple[str, Callable[[np.random.Generator, Batch], Batch]]] = {
    "good, RGB": ("", lambda _, batch: batch),
    "good, grey": ("", _grey),
    "good, batch of one": ("", _single),
    "good, vectors": ("", _change(x=lambda x: x.reshape(len(x), -1))),
    "good, standardised": ("", _change(x=lambda x: (x - 0.5) * 8)),
    "good, bfloat16": ("", lambda _, batch: {**batch, "bfloat16": True}),
    "good, many classes": ("", _change(y=lambda y: y * 17 + 100)),
    "no batch dimension": ("x.shape", _no_batch),
    "no channel dimension": ("x.shape", _change(x=lambda x: x[:, 0])),
    "a dimension too many": ("x.shape", _change(x=lambda x: x[:, None])),
    "raw uint8 pixels": ("x.dtype x.range", _change(x=lambda x: np.rint(x * 155 + 100).astype(np.uint8))),
    "integer inputs": ("x.dtype", _change(x=lambda x: np.rint(x * 9).astype(np.int64))),
    "float64 inputs": ("x.dtype", _change(x=lambda x: x.astype(np.float64))),
    "values up to 255": ("x.range", _change(x=lambda x: x * 155 + 100)),
    "one large entry": ("x.range", _one_entry(37.0)),
    "one very negative entry": ("x.range", _one_entry(-37.0)),
    "one NaN": ("x.range", _one_entry(float("nan"))),
    "one-hot labels": ("y.shape", _change(y=_one_hot)),
    "one-hot float labels": ("y.shape y.dtype", _change(y=lambda y: _one_hot(y).astype(np.float32))),
    "a column of labels": ("y.shape", _change(y=lambda y: y[:, None])),
    "a label missing": ("y.shape", _change(y=lambda y: y[:-1])),
    "float labels": ("y.dtype", _change(y=lambda y: y.astype(np.float32))),
    "int32 labels": ("y.dtype", _change(y=lambda y: y.astype(np.int32))),
    "uint8 pixels, float labels": (
        "x.dtype x.range y.dtype",
        _change(x=lambda x: np.rint(x * 155 + 100).astype(np.uint8), y=lambda y: y.astype(np.float32)),
    ),
}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Good batches that look unusual and batches with one to three problems, in a random order."""
    cases = [
        HiddenCase(kind, make(rng, _good(rng)), frozenset(problems.split()))
        for kind, (problems, make) in _KINDS.items()
        for _ in range(_REPEATED)
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def _good(rng: np.random.Generator) -> Batch:
    # Every size differs from 1, so that no dimension can be lost by squeezing unless a kind makes it 1.
    examples, height, width = (int(size) for size in rng.integers(3, 7, size=3))
    return {
        "x": rng.uniform(0.0, 1.0, (examples, 3, height, width)).astype(np.float32),
        "y": rng.integers(0, int(rng.integers(2, 12)), examples),
        "bfloat16": False,
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """A problem's points when it is reported for all batches that have it and for no other."""
    reports = [(case, *read_names(seen, "problems")) for case, seen in zip(cases, observations, strict=True)]
    parts = tuple(_grade(problem, points, reports) for problem, points in PARTS)
    return Verdict(ID, parts, misconception=_misconception(reports))


Report = tuple[HiddenCase, "set[str] | None", str]


def _grade(problem: str, points: float, reports: Sequence[Report]) -> Part:
    there = [(case, found) for case, found, _ in reports if problem in case.key]
    for case, found, reason in reports:
        if found is None:
            return Part(problem, 0.0, points, f"on a batch ({case.kind}): {reason}")
    missed = sorted({case.kind for case, found in there if found is not None and problem not in found})
    alarms = sorted({case.kind for case, found, _ in reports if found and problem in found - case.key})
    if missed:
        return Part(problem, 0.0, points, f"missed in {len(missed)} of the kinds of batch that have it")
    if alarms:
        return Part(problem, 0.0, points, f"reported for {len(alarms)} kinds of batch that do not have it")
    return Part(problem, points, points, f"found in {len(there)} of {len(there)} batches, no false alarm")


def _misconception(reports: Sequence[Report]) -> str | None:
    by_kind: dict[str, list[set[str]]] = {}
    for case, found, _ in reports:
        if found is None:
            return None
        by_kind.setdefault(case.kind, []).append(found)
    everything = [found for group in by_kind.values() for found in group]
    if all(found == set(PROBLEMS) for found in everything):
        return "always-alarm"
    if not any(everything):
        return "never-alarm"

    def says(kind: str, problem: str) -> bool:
        return all(problem in found for found in by_kind[kind])

    rules = [
        ("squeezed", says("good, batch of one", "y.shape") or not says("a column of labels", "y.shape")),
        ("grey-only", says("good, RGB", "x.shape") and not says("good, grey", "x.shape")),
        ("images-only", says("good, vectors", "x.shape")),
        ("at-least-four", not says("a dimension too many", "x.shape")),
        ("range-is-unit", says("good, standardised", "x.range")),
        ("float32-only", says("good, bfloat16", "x.dtype")),
        ("any-float", not says("float64 inputs", "x.dtype") and says("integer inputs", "x.dtype")),
        ("one-sided", not says("one very negative entry", "x.range") and says("one large entry", "x.range")),
        ("nan-passes", not says("one NaN", "x.range") and says("one large entry", "x.range")),
        ("count-not-compared", not says("a label missing", "y.shape") and says("one-hot labels", "y.shape")),
        ("any-integer", not says("int32 labels", "y.dtype") and says("float labels", "y.dtype")),
        ("first-problem-only", not says("raw uint8 pixels", "x.range") and says("values up to 255", "x.range")),
    ]
    return next((name for name, applies in rules if applies), None)
