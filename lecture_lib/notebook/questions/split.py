"""03b-split: choose what a table is split by, from what the model is meant for, and make the split."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..question import Functions, Inputs, PublicQuestion

KINDS = ("new patients", "new videos", "later days", "new users", "new texts")
COLUMNS = dict(zip(KINDS, ("patient", "video", "day", "user", "text"), strict=True))
TOLERANCE = 0.05  # of the records, and for new patients of each class
ONCE, SIZE, ORDER, CLASSES = "every record in one part", "size", "validation comes", "each class at its share"


def _split(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    table = {name: np.array(column) for name, column in inputs["table"].items()}
    arguments = table, inputs["deployed_on"], inputs["val_fraction"]
    # Not `repeatable`: a second split may be another one. But it has to be right, so the table must be as it was.
    functions["make_split"](*arguments)
    parts = functions["make_split"](*arguments)
    # Arrays, tensors, lists, ranges and sets of whole numbers are the same; anything else is no row number.
    train, val = (np.array([operator.index(row) for row in part], dtype=np.int64) for part in parts)
    return {"train": train, "val": val}


def shared(kind: str) -> str:
    """What is said of the things that are to be new."""
    return ORDER if kind == "later days" else f"a {COLUMNS[kind]} in both parts"


def facts(rows: Mapping[str, Any], inputs: Inputs) -> dict[str, str]:
    """What can be said about a split in words: two right splits differ in their numbers."""
    table, kind, fraction = inputs["table"], inputs["deployed_on"], inputs["val_fraction"]
    column, labels = np.asarray(table[COLUMNS[kind]]), np.asarray(table["label"])
    numbers = [np.asarray(rows[name]).reshape(-1) for name in ("train", "val")]
    if not np.array_equal(np.sort(np.concatenate(numbers)), np.arange(len(column))):
        return {ONCE: "no"}
    train, val = (column[part.astype(np.int64)] for part in numbers)
    answers = {ONCE: "yes", SIZE: _size(len(val), fraction, len(column))}
    if kind == "later days":
        answers[ORDER] = "after" if _before(train, val) else "before" if _before(val, train) else "in between"
    else:
        answers[shared(kind)] = "no" if set(train.tolist()).isdisjoint(val.tolist()) else "yes"
    if kind == "new patients":
        in_val = labels[numbers[1].astype(np.int64)]
        sizes = [_size(np.sum(in_val == label), fraction, np.sum(labels == label)) for label in np.unique(labels)]
        answers[CLASSES] = "yes" if set(sizes) == {"right"} else "no"
    return answers


def _before(first: np.ndarray, second: np.ndarray) -> bool:
    return len(first) > 0 and len(second) > 0 and bool(first.max() < second.min())


def _size(count: int, fraction: float, records: int) -> str:
    gap = count / records - fraction
    # A gap as large as the tolerance is right, and in binary fractions it may come out larger.
    return "right" if abs(gap) <= TOLERANCE + 1e-9 else "too large" if gap > 0 else "too small"


QUESTION = PublicQuestion(
    id="03b-split",
    title="split a table",
    functions=("make_split",),
    parts={"split": _split, "facts": lambda functions, inputs: facts(_split(functions, inputs), inputs)},
)
