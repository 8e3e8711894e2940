"""03b-split: choose what a table is split by, from what the model is meant for, and make the split."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

KINDS = ("new patients", "new videos", "later days", "new users", "new texts")
COLUMNS = dict(zip(KINDS, ("patient", "video", "day", "user", "text"), strict=True))
TOLERANCE = 0.05  # of the records, and for new patients of each class


def _split(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    table = {name: np.array(column) for name, column in inputs["table"].items()}
    parts = functions["make_split"](table, inputs["deployed_on"], inputs["val_fraction"])
    # Arrays, tensors, lists, ranges and sets of whole numbers are the same; anything else is no row number.
    train, val = (np.array([operator.index(row) for row in part], dtype=np.int64) for part in parts)
    return {"train": train, "val": val}


def _facts(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What can be said about a split in words: two right splits differ in their numbers."""
    rows = _split(functions, inputs)
    table, kind, fraction = inputs["table"], inputs["deployed_on"], inputs["val_fraction"]
    column, labels = np.asarray(table[COLUMNS[kind]]), np.asarray(table["label"])
    train, val = column[rows["train"]], column[rows["val"]]
    once = np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(len(column)))
    facts = {"every record in one part": _yes(once), "size": _size(len(val), fraction, len(column))}
    if kind == "later days":
        before, after = _all_before(val, train), _all_before(train, val)
        facts["validation comes"] = "after" if after else "before" if before else "in between"
    else:
        facts[f"a {COLUMNS[kind]} in both parts"] = _yes(not set(train.tolist()).isdisjoint(val.tolist()))
    if kind == "new patients":
        sizes = [
            _size(np.sum(labels[rows["val"]] == one), fraction, np.sum(labels == one)) for one in np.unique(labels)
        ]
        facts["each class at its share"] = _yes(set(sizes) == {"right"})
    return facts


def _all_before(first: np.ndarray, second: np.ndarray) -> bool:
    return len(first) > 0 and len(second) > 0 and bool(first.max() < second.min())


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _size(found: int, fraction: float, records: int) -> str:
    gap = found / records - fraction
    return "right" if abs(gap) <= TOLERANCE + 1e-9 else "too large" if gap > 0 else "too small"


def _expected(kind: str, **changes: str) -> dict[str, dict[str, str]]:
    facts = {"every record in one part": "yes", "size": "right"}
    if kind == "later days":
        facts["validation comes"] = "after"
    else:
        facts[f"a {COLUMNS[kind]} in both parts"] = "no"
    if kind == "new patients":
        facts["each class at its share"] = "yes"
    return {"facts": {**facts, **changes}}


def _case(kind: str, name: str, val_fraction: float, table: dict[str, Any], **mistakes: dict[str, str]) -> PublicCase:
    common: dict[str, dict[str, str]] = {
        "records-lost": {"every record in one part": "no"},
        "exchanged": {"size": "too large"},
        "fixed-fraction": {"size": "too small"},
    }
    named = {key.replace("_", "-"): value for key, value in mistakes.items()}
    shown = {mistake: {"facts": facts} for mistake, facts in {**common, **named}.items()}
    inputs = {"table": table, "deployed_on": kind, "val_fraction": val_fraction}
    return PublicCase(name, inputs, _expected(kind), shown)


# Rows of a group stand apart, and days are out of order: neither a slice nor every tenth row is a split.
_ROW = np.arange(120)
_MIXED = (_ROW * 49) % 120
_PATIENT = _MIXED // 3
_VERBS = ("falls", "stops", "comes", "goes", "turns", "stays")
_TEXTS = [f"{subject} {verb}" for subject in ("rain", "snow", "wind", "sun") for verb in _VERBS]
_ONCE = {"size": "right", "every record in one part": "yes"}

QUESTION = PublicQuestion(
    id="03b-split",
    title="split a table",
    functions=("make_split",),
    parts={"split": _split, "facts": _facts},
    cases=(
        _case(
            "new patients", "40 patients, 3 images each, two classes of 30 and 10 patients", 0.3,
            {"patient": _PATIENT, "day": _MIXED[::-1].copy(), "label": (_PATIENT >= 30).astype(np.int64)},
            random_rows={**_ONCE, "a patient in both parts": "yes"},
            unbalanced={**_ONCE, "a patient in both parts": "no", "each class at its share": "no"},
        ),
        _case(
            "new videos", "20 videos of 6 frames", 0.3,
            {"video": _ROW // 6, "frame": _ROW % 6, "label": _ROW % 2},
            random_rows={**_ONCE, "a video in both parts": "yes"},
        ),
        _case(
            "later days", "120 days of 30 users, not in order", 0.4,
            {"user": _ROW % 30, "day": _MIXED, "label": _ROW % 2},
            random_rows={**_ONCE, "validation comes": "in between"},
            time_reversed={**_ONCE, "validation comes": "before"},
        ),
        _case(
            "new users", "the same table for new users", 0.3,
            {"user": _ROW % 30, "day": _MIXED, "label": _ROW % 2},
            random_rows={**_ONCE, "a user in both parts": "yes"},
        ),
        _case(
            "new texts", "120 documents, 24 different texts", 0.3,
            {"document": _ROW, "text": np.array([_TEXTS[row % 24] for row in _MIXED]).tolist(), "label": _ROW % 2},
            by_number={**_ONCE, "a text in both parts": "yes"},
        ),
    ),
    misconceptions={
        "random-rows": Misconception(
            "rows were split as if they were independent: what belongs together is in both parts",
            "which rows of the table know each other, and what the model will meet later",
        ),
        "unbalanced": Misconception(
            "no patient is in both parts, but a class is over- or under-represented in validation",
            "the share of each class that went to validation",
        ),
        "time-reversed": Misconception(
            "the model is trained on the future and validated on the past",
            "on which side of the cut the largest day lies",
        ),
        "by-number": Misconception(
            "the number of a document was taken for the document: copies of one text have different numbers",
            "which column tells that two documents are the same",
        ),
        "records-lost": Misconception(
            "some records are in no part, or in both",
            "whether the two parts together hold every row number once",
        ),
        "exchanged": Misconception(
            "validation holds the larger part",
            "the order in which the two parts are returned",
        ),
        "fixed-fraction": Misconception(
            "the size of validation is not the one that was asked for",
            "whether `val_fraction` is used",
        ),
    },
)  # fmt: skip
