"""03b-split: no leak for what the model is meant for, every record once, the size and the class balance asked for.

Sizes of groups are chosen so that whole groups, counted by records or by groups, come within the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03b-split"
PARTS = (
    ("new patients", 1.0),
    ("class balance", 1.0),
    ("new videos", 1.0),
    ("later days", 2.0),
    ("new users", 1.0),
    ("new texts", 2.0),
)
TOLERANCE = 0.05 + 1e-9
FRACTIONS = (0.2, 0.35)  # no fixed fraction is within the tolerance of both
_COLUMNS = {
    "new patients": "patient",
    "new videos": "video",
    "later days": "day",
    "new users": "user",
    "new texts": "text",
}
_SYLLABLES = ("ba", "do", "ke", "li", "mu", "ra", "so", "ti")


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two tables for each use of the model, one for each fraction, in a random order."""
    makers = {
        "new patients": _patients,
        "new videos": _videos,
        "later days": _logs,
        "new users": _logs,
        "new texts": _documents,
    }
    cases = []
    for kind, make in makers.items():
        for fraction in FRACTIONS:
            inputs = {"table": make(rng), "deployed_on": kind, "val_fraction": fraction}
            cases.append(HiddenCase(kind, inputs, fraction))
    return [cases[index] for index in rng.permutation(len(cases))]


def _shuffled(rng: np.random.Generator, table: dict[str, np.ndarray]) -> dict[str, Any]:
    order = rng.permutation(len(table["label"]))
    return {name: column[order] for name, column in table.items()}


def _patients(rng: np.random.Generator) -> dict[str, Any]:
    """80 patients of three classes, numbered class by class, three or four images each."""
    sizes = np.concatenate([rng.permutation(np.repeat([3, 4], count // 2)) for count in (40, 20, 20)])
    classes = np.repeat(rng.permutation(3), (40, 20, 20))
    numbers = np.sort(rng.choice(900, len(sizes), replace=False)) + 100
    patient, label = np.repeat(numbers, sizes), np.repeat(classes, sizes)
    return _shuffled(rng, {"patient": patient, "day": rng.permutation(len(label)), "label": label})


def _groups(rng: np.random.Generator) -> np.ndarray:
    """The numbers of 40 groups of seven to ten rows."""
    numbers = rng.choice(900, 40, replace=False) + 100
    return np.repeat(numbers, rng.permutation(np.repeat([7, 8, 9, 10], 10)))


def _videos(rng: np.random.Generator) -> dict[str, Any]:
    video = _groups(rng)
    frame = np.concatenate([np.arange(np.sum(video == one)) for one in dict.fromkeys(video.tolist())])
    return _shuffled(rng, {"video": video, "frame": frame, "label": rng.integers(0, 2, len(video))})


def _logs(rng: np.random.Generator) -> dict[str, Any]:
    user = _groups(rng)
    days = rng.choice(3 * len(user), len(user), replace=False)
    return _shuffled(rng, {"user": user, "day": days, "label": rng.integers(0, 2, len(user))})


def _documents(rng: np.random.Generator) -> dict[str, Any]:
    """60 texts with four or five copies each, under numbers of their own."""
    words = ["".join(rng.choice(_SYLLABLES, 3)) + str(number) for number in rng.permutation(60)]
    text = np.repeat(np.array(words), rng.permutation(np.repeat([4, 5], 30)))
    table = _shuffled(rng, {"text": text, "label": rng.integers(0, 2, len(text))})
    return {"document": rng.permutation(len(text)), **table, "text": table["text"].tolist()}


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All tables of a kind have to be right; the class balance counts only when no patient is in both parts."""
    seen = {(case.kind, case.key): _Split(case, observed) for case, observed in zip(cases, observations, strict=True)}
    parts = []
    for name, points in PARTS:
        kind = "new patients" if name == "class balance" else name
        splits = [seen[kind, fraction] for fraction in FRACTIONS]
        faults = [split.fault() or (split.unbalanced if name == "class balance" else "") for split in splits]
        fault = next(filter(None, faults), "")
        parts.append(Part(name, 0.0 if fault else points, points, fault or f"right on {len(splits)} hidden tables"))
    return Verdict(ID, tuple(parts), misconception=_misconception(list(seen.values()), parts))


class _Split:
    """One split with what can be said about it; computed here, from the row numbers alone."""

    def __init__(self, case: HiddenCase, observation: Observation) -> None:
        table, self.kind, self.fraction = case.inputs["table"], case.kind, case.inputs["val_fraction"]
        column, labels = np.asarray(table[_COLUMNS[case.kind]]), np.asarray(table["label"])
        fields: Any = value(observation, "split")
        self.raised = why_none(observation, "split") if fields is None else ""
        train, val = (_rows(fields.get(name) if fields else None) for name in ("train", "val"))
        self.once = np.array_equal(np.sort(np.concatenate([train, val])), np.arange(len(column)))
        self.share, self.shared, self.order, self.unbalanced = np.nan, 0, "", ""
        if not self.once or not len(train) or not len(val):
            return
        self.share = len(val) / len(column)
        if self.kind == "later days":
            after = column[train].max() < column[val].min()
            self.order = "after" if after else "before" if column[val].max() < column[train].min() else "in between"
        else:
            self.shared = len(set(column[train].tolist()) & set(column[val].tolist()))
        if self.kind == "new patients":
            shares = [np.mean(labels[val] == one) * len(val) / np.sum(labels == one) for one in np.unique(labels)]
            worst = max(shares, key=lambda share: abs(share - self.fraction))
            if abs(worst - self.fraction) > TOLERANCE:
                self.unbalanced = f"of one class {worst:.0%} are in validation where {self.fraction:.0%} were asked for"

    def fault(self) -> str:
        """The first thing that is wrong with it, classes apart; empty when nothing is."""
        if self.raised or not self.once:
            return self.raised or "some records are in no part, or in both"
        if self.shared:
            return f"{self.shared} {_COLUMNS[self.kind]}s are in both parts"
        if self.order not in ("", "after"):
            return "validation does not lie after all of training"
        if not abs(self.share - self.fraction) <= TOLERANCE:
            return f"validation holds {self.share:.0%} of the records where {self.fraction:.0%} were asked for"
        return ""


def _rows(found: Any) -> np.ndarray:
    """Row numbers; what is none becomes -1, which no table has."""
    if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu":
        return np.array([-1])
    return found.astype(np.int64)


def _misconception(splits: list[_Split], parts: list[Part]) -> str | None:
    failed = {part.name for part in parts if part.points < part.maximum}
    if not failed or any(split.raised for split in splits):
        return None
    if not all(split.once for split in splits):
        return "records-lost"
    gaps = [split.share - split.fraction for split in splits]
    if all(gap > 2 * TOLERANCE for gap in gaps):
        return "exchanged"
    if max(map(abs, gaps)) > TOLERANCE:
        return "fixed-fraction" if np.ptp([split.share for split in splits]) <= TOLERANCE else None
    mixed = {split.kind for split in splits if split.shared or split.order == "in between"}
    if len(mixed) == len(_COLUMNS):
        return "random-rows"
    if failed == {"later days"} and all(split.order != "in between" for split in splits):
        return "time-reversed"
    known = {"new texts": "by-number", "class balance": "unbalanced"}
    return known.get(failed.pop()) if len(failed) == 1 else None
