"""03b-shift: four kinds of shift by stated shares, each found wherever it is and named nowhere else.

The examples are drawn as counts: what is to stay the same differs by rounding only, what is to change does by far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.shift import ARRAYS, KINDS

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03b-shift"
PARTS = tuple((kind, 2.0) for kind in KINDS)
LIMIT = 0.1
SAME, CHANGED = 0.03, 0.16  # no comparison that decides lies between them
_EXAMPLES = 900  # in each part, half of them in each half of training

Joint = np.ndarray
"""Shares of the pairs (x, y), [3, 2], sum 1."""
Change = Callable[[np.random.Generator, Joint], Joint]


_ALL = {"x", "y", "y|x", "x|y"}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Thirteen pairs of data sets in a random order; validation is later than training in all of them."""
    # Kind, its key, what changes from training to validation, what changes it, and whether it begins within training.
    plans: list[tuple[str, str, set[str], Change, bool]] = [
        ("no shift", "none", set(), _nothing, False),
        ("no shift, larger inputs in the lower rows", "none", set(), _nothing, False),
        ("covariate, other classes too", "covariate", _ALL - {"y|x"}, _other_inputs, False),
        ("covariate, the classes' shares as before", "covariate", {"x", "x|y"}, _other_inputs, False),
        ("label", "label", _ALL - {"x|y"}, _other_shares, False),
        ("label, again", "label", _ALL - {"x|y"}, _other_shares, False),
        ("concept", "concept", {"y|x", "x|y"}, _other_labels, False),
        ("concept, again", "concept", {"y|x", "x|y"}, _other_labels, False),
        ("concept, other classes too", "concept", _ALL - {"x"}, _other_labels, False),
        ("temporal: inputs drift on", "temporal", _ALL - {"y|x"}, _other_inputs, True),
        ("temporal: inputs", "temporal", set(), _other_inputs, True),
        ("temporal: classes", "temporal", set(), _other_shares, True),
        ("temporal: labels", "temporal", set(), _other_labels, True),
    ]
    cases = []
    for kind, key, changed, change, drifts in plans:
        early, late, val = _found(rng, changed, change, drifts)
        cases.append(HiddenCase(kind, _examples(rng, early, late, val, in_order="rows" in kind), key))
    return [cases[index] for index in rng.permutation(len(cases))]


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Two points for a kind that is found in all of its data sets and in no other."""
    pairs = list(zip(cases, observations, strict=True))
    found = [_kind(seen) for seen in observations]
    parts = []
    for kind, points in PARTS:
        own = [answer == kind for case, answer in zip(cases, found, strict=True) if case.key == kind]
        alarms = sum(answer == kind for case, answer in zip(cases, found, strict=True) if case.key != kind)
        silent = [
            seen for (case, seen), answer in zip(pairs, found, strict=True) if case.key == kind and answer is None
        ]
        if silent:
            message = why_none(silent[0], "decision")
        elif not all(own):
            message = f"missed in {own.count(False)} of the {len(own)} data sets that have it"
        elif alarms:
            message = f"named for {alarms} data sets that do not have it"
        else:
            message = f"found in {len(own)} of {len(own)} data sets, no false alarm"
        parts.append(Part(kind, points if all(own) and not alarms else 0.0, points, message))
    return Verdict(ID, tuple(parts), misconception=_misconception(cases, found))


def _kind(observation: Observation) -> str | None:
    fields: Any = value(observation, "decision") or {}
    found = fields.get("kind")
    return found if isinstance(found, str) else None


def _misconception(cases: Sequence[HiddenCase], found: list[str | None]) -> str | None:
    if found == [case.key for case in cases]:
        return None
    if len(set(found)) == 1:
        known = {"none": "always-none", "covariate": "always-covariate", "temporal": "later-is-temporal"}
        return known.get(str(found[0]))
    for mistake in (
        "label-by-share", "covariate-by-input", "concept-by-relation", "concept-by-x-given-y",
        "later-is-temporal", "never-temporal", "rows-for-time",
    ):  # fmt: skip
        if all(_decide(case.inputs, mistake) == answer for case, answer in zip(cases, found, strict=True)):
            return mistake
    return None


def _decide(inputs: Any, mistake: str = "") -> str:
    """The stated criteria, or what a known mistake makes of them."""
    train, val = _counted(inputs, "train"), _counted(inputs, "val")
    order = np.arange(_EXAMPLES) if mistake == "rows-for-time" else np.argsort(inputs["t_train"])
    early, late = (_counted(inputs, "train", rows) for rows in (order[: _EXAMPLES // 2], order[_EXAMPLES // 2 :]))
    drifts = max(_changes(early, late).values()) > LIMIT
    if mistake == "later-is-temporal" or (drifts and mistake != "never-temporal"):
        return "temporal"
    changed = {name: change > LIMIT for name, change in _changes(train, val).items()}
    rules = {
        "covariate": changed["x"] and not changed["y|x"],
        "label": changed["y"] and not changed["x|y"],
        "concept": changed["y|x"] and not changed["x"],
    }
    sloppy = {
        "label-by-share": ("label", changed["y"]),
        "covariate-by-input": ("covariate", changed["x"]),
        "concept-by-relation": ("concept", changed["y|x"]),
        "concept-by-x-given-y": ("concept", changed["x|y"]),
    }
    if mistake in sloppy and sloppy[mistake][1]:
        return sloppy[mistake][0]
    return next((kind for kind, holds in rules.items() if holds), "none")


def _changes(first: Joint, second: Joint) -> dict[str, float]:
    """The largest difference of a share in each of the four distributions."""
    forms = {
        "x": lambda joint: joint.sum(axis=1),
        "y": lambda joint: joint.sum(axis=0),
        "y|x": lambda joint: joint / joint.sum(axis=1, keepdims=True),
        "x|y": lambda joint: joint / joint.sum(axis=0, keepdims=True),
    }
    return {name: float(np.abs(form(first) - form(second)).max()) for name, form in forms.items()}


def _counted(inputs: Any, part: str, rows: np.ndarray | None = None) -> Joint:
    x, y = (inputs[f"{name}_{part}"] for name in "xy")
    pairs = 2 * x + y if rows is None else (2 * x + y)[rows]
    return np.bincount(pairs, minlength=6).reshape(3, 2) / len(pairs)


def _found(rng: np.random.Generator, changed: set[str], change: Change, drifts: bool) -> tuple[Joint, Joint, Joint]:
    """Training's halves and validation that differ in what they should, and in nothing else that decides."""
    while True:
        early = _drawn(rng)
        late = change(rng, early) if drifts else early
        train = (early + late) / 2
        val = change(rng, train) if changed else train
        rare = min(joint.sum(axis=axis).min() for joint in (early, late, val) for axis in (0, 1)) < 0.12
        apart = max(_changes(early, late).values()) >= CHANGED
        wanted = all(
            size >= CHANGED if name in changed else size <= SAME for name, size in _changes(train, val).items()
        )
        if wanted and apart == drifts and not rare:
            return early, late, val


def _drawn(rng: np.random.Generator) -> Joint:
    """Inputs of different shares whose labels differ."""
    shares = rng.permutation([0.5, 0.3, 0.2]) + rng.uniform(-0.03, 0.03, 3)
    ones = rng.permutation([0.15, 0.5, 0.85]) + rng.uniform(-0.05, 0.05, 3)
    return np.stack([1 - ones, ones], axis=1) * (shares / shares.sum())[:, None]


def _nothing(_: np.random.Generator, joint: Joint) -> Joint:
    return joint


def _other_inputs(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(x) changes, P(y | x) stays."""
    return joint / joint.sum(axis=1, keepdims=True) * rng.dirichlet([2.0, 2.0, 2.0])[:, None]


def _other_shares(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(y) changes, P(x | y) stays."""
    one = rng.uniform(0.15, 0.85)
    return joint / joint.sum(axis=0) * np.array([1 - one, one])


def _other_labels(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(y | x) changes, P(x) stays."""
    ones = rng.uniform(0.1, 0.9, 3)
    return np.stack([1 - ones, ones], axis=1) * joint.sum(axis=1, keepdims=True)


def _examples(
    rng: np.random.Generator, early: Joint, late: Joint, val: Joint, *, in_order: bool
) -> dict[str, np.ndarray]:
    """Examples of training's halves in time and of validation, with times that are all different.

    Training's rows are mixed, the upper ones as the lower ones; or, roughly, in the order of the inputs.
    """
    days = np.sort(rng.choice(4 * _EXAMPLES, 2 * _EXAMPLES, replace=False))
    half = _EXAMPLES // 2
    rows = np.concatenate([_pairs(early, half), _pairs(late, half)])
    stamps = np.concatenate([rng.permutation(days[:half]), rng.permutation(days[half:_EXAMPLES])])
    order = np.concatenate([rng.permutation(np.arange(side, _EXAMPLES, 2)) for side in (0, 1)])
    if in_order:
        order = order[np.argsort(rows[order, 0] + rng.uniform(-2, 2, _EXAMPLES))]
    later = rng.permutation(_pairs(val, _EXAMPLES))
    columns = (*rows[order].T, stamps[order], *later.T, rng.permutation(days[_EXAMPLES:]))
    return {name: np.ascontiguousarray(column) for name, column in zip(ARRAYS, columns, strict=True)}


def _pairs(joint: Joint, count: int) -> np.ndarray:
    """`count` pairs (x, y), [count, 2], in the shares of `joint`, as nearly as whole numbers allow."""
    ends = np.round(np.cumsum(joint.reshape(-1)) / joint.sum() * count).astype(int)
    return np.repeat(list(product(range(3), range(2))), np.diff(ends, prepend=0), axis=0)
