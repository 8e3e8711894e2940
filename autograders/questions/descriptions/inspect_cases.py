"""What 03b-inspect is drawn from: clean data sets, and edits that give one of them a problem, or seem to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def rows(x: np.ndarray) -> set[tuple[float, ...]]:
    """The rows as numbers: 0.0 is -0.0, and 1 is 1.0 in any dtype."""
    return set(map(tuple, x.tolist()))


# What makes a data set, step by step: each changes the arrays that it is given.
Drawn = dict[str, Any]
Edit = Callable[[np.random.Generator, Drawn], None]


def clean(rng: np.random.Generator) -> Drawn:
    """Numbers in eighths from -4 to 4: single numbers occur in both parts, whole rows do not."""
    train, val, classes = (int(rng.integers(*limits)) for limits in ((20, 29), (10, 15), (3, 5)))
    while True:
        x_train, x_val = (rng.integers(-32, 33, (n, 5)).astype(np.float32) / 8 for n in (train, val))
        if len(rows(x_train) | rows(x_val)) == train + val:
            break
    y_train, y_val = (rng.permutation(np.arange(n) % classes) for n in (train, val))
    return {"x_train": x_train, "y_train": y_train, "x_val": x_val, "y_val": y_val, "classes": classes}


def put(part: str, *numbers: float) -> Edit:
    """Single numbers anywhere in the inputs of a part."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        x = data[f"x_{part}"]
        x.flat[rng.choice(x.size, len(numbers), replace=False)] = numbers

    return edit


def as_type(dtype: str, *names: str) -> Edit:
    return lambda rng, data: data.update({name: data[name].astype(dtype) for name in names})


def labels(train: Callable[[Any, int], Any], val: Callable[[Any, int], Any], more: int = 0) -> Edit:
    """All labels of both parts as functions of the labels and `classes`, and so many classes more."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        classes = data["classes"]
        data.update(y_train=train(data["y_train"], classes), y_val=val(data["y_val"], classes), classes=classes + more)

    return edit


def frequent(label: int) -> Callable[[Any, int], Any]:
    """This label and once each other one."""
    return lambda y, classes: np.append(0 * y[classes:] + label, range(classes))


def share(
    change: Callable[[np.ndarray], Any] = lambda row: row,
    at: int | None = None,
    parts: str = "train val",
    val: str = "",
) -> Edit:
    """A row of the first part, changed, is in the second, at the same place `at` or elsewhere. `val`: a dtype."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        data["x_val"] = data["x_val"].astype(val or data["x_val"].dtype)
        first, second = (data[f"x_{part}"] for part in parts.split())
        source, into = (at, at) if at is not None else (len(first) - 2, rng.integers(len(second) // 2))
        first[source] = rng.permutation(5) / 2
        second[into] = change(first[source].astype(np.float64))

    return edit


def single(train: float, val: float) -> Edit:
    """One number and one label in each part."""
    x_train, x_val = (np.array([[number]], np.float32) for number in (train, val))
    return lambda rng, data: data.update(x_train=x_train, x_val=x_val, y_train=np.array([1]), y_val=np.array([1]))


def single_rows(*shared: int) -> Edit:
    """One row and one label in each part; the rows have the numbers at these places in common."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        x_train, x_val = rng.permutation(10).reshape(2, 1, 5).astype(np.float32) - 5
        x_val[0, list(shared)] = x_train[0, list(shared)]
        data.update(x_train=x_train, x_val=x_val, y_train=np.array([1]), y_val=np.array([1]))

    return edit


def many(*repeated: int) -> Edit:
    """Sixty rows of twelve numbers with all their digits; these rows of training are in validation too."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        x_train, x_val = rng.uniform(-9, 9, (60, 12)), rng.uniform(-9, 9, (45, 12))
        x_val[rng.permutation(len(x_val))[: len(repeated)]] = x_train[list(repeated)]
        y_train, y_val = (rng.permutation(np.arange(n) % data["classes"]) for n in (60, 45))
        data.update(x_train=x_train, x_val=x_val, y_train=y_train, y_val=y_val)

    return edit


def near_rows(rng: np.random.Generator, data: Drawn) -> None:
    """Some rows of training are in validation with numbers that are larger by a billionth."""
    rows = rng.permutation(min(len(data["x_train"]), len(data["x_val"])))[:8]
    data["x_val"][rows] = data["x_train"][rows] * (1 + 1e-9)


def barely(part: str) -> Edit:
    """A float64 that is above 10 by so little that it is 10 in float32."""

    def edit(rng: np.random.Generator, data: Drawn) -> None:
        data[f"x_{part}"] = data[f"x_{part}"].astype(np.float64)
        put(part, rng.choice([-1, 1]) * (10 + 10 ** rng.uniform(-14, -8)))(rng, data)

    return edit


def whole(dtype: str, end: int, *parts: str) -> Edit:
    """Inputs that are whole numbers from 0 on, below `end`."""
    return lambda rng, data: data.update(
        {f"x_{part}": rng.integers(0, end, data[f"x_{part}"].shape).astype(dtype) for part in parts}
    )


def same(y: Any, classes: int) -> Any:
    return y


PARTS = ("train", "val")
FIRST, LAST = np.eye(5)[[0, -1]]
LABEL_TYPES = (("float32", "train"), ("float64", "val"), ("int32", "train"), ("int16", "val"))
# By problem, in the order in which several of them are made; the kinds of "" have none.
KINDS: dict[str, dict[str, tuple[Edit, ...]]] = {
    "": {
        "clean": (),
        "10 and -10": (put("train", 10, -10), put("val", 10, -10)),
        "half precision": (as_type("float16", "x_train", "x_val"),),
        "two precisions": (as_type("float64", "x_val"),),
        "rows repeated within a part": (share(parts="train train"), share(parts="val val")),
        "imbalanced classes": (labels(frequent(1), frequent(2), more=1),),
        "a single number in each part": (single(0.5, -0.5),),
        "a single row in each part": (single_rows(0, 3),),
        "many rows": (many(),),
        "many rows, and some that nearly agree": (many(), near_rows),
        "rows that nearly agree": (share(lambda row: row * (1 + 1e-9), val="float64"),),
        "rows that agree but for the first number": (share(lambda row: row + FIRST, at=0),),
        "rows that agree but for the last number": (share(lambda row: row + LAST, at=-1),),
        "rows that agree in another order": (share(lambda row: row[::-1]),),
        "rows that agree but for the sign": (share(lambda row: -row),),
    },
    "class-stacked": {
        "one class in validation": (labels(same, lambda y, classes: 0 * y + classes - 1),),
        "a class missing from validation": (labels(same, lambda y, classes: y % (classes - 1)),),
        "a class missing from training": (labels(lambda y, classes: 1 + y % (classes - 1), same),),
        "classes one higher in validation": (labels(same, lambda y, classes: y + 1, more=1),),
        "classes one lower in validation": (labels(same, lambda y, classes: y - 1),),
        "disjoint classes": (labels(lambda y, classes: y % 2, lambda y, classes: 2 + y % 2, more=1),),
    },
    "labels": {
        "labels from 1": (labels(lambda y, classes: y + 1, lambda y, classes: y + 1),),
        "labels from -1": (labels(lambda y, classes: y - 1, lambda y, classes: y - 1),),
        "a label too large in training": (labels(lambda y, classes: np.append(classes, y[1:]), same),),
        "a label too large in validation": (labels(same, lambda y, classes: np.append(classes, y[1:])),),
        "a label below 0 in training": (labels(lambda y, classes: np.append(y[:-1], -1), same),),
        "a label of -100 in validation": (labels(same, lambda y, classes: np.append(y[:-1], -100)),),
    },
    "dtype": {
        "whole numbers, and a label below 0": (whole("int64", 10, *PARTS), labels(same, lambda y, classes: y - 1)),
        **{f"whole numbers in {part}": (whole("int64", 10, part),) for part in PARTS},
        "whole numbers in both": (whole("int32", 10, *PARTS),),
        **{f"{dtype} labels in {part}": (as_type(dtype, f"y_{part}"),) for dtype, part in LABEL_TYPES},
    },
    "range": {
        **{f"{number} in {part}": (put(part, number),) for part in PARTS for number in (-10.5, 10.5, -1000, 1000)},
        "raw pixels": (whole("int32", 256, *PARTS),),
        **{f"barely above 10 in {part}": (barely(part),) for part in PARTS},
    },
    "duplicates": {
        "a shared row": (share(),),
        "the same first row": (share(at=0),),
        "the same last row": (share(at=-1),),
        "a row in two precisions": (share(val="float64"),),
        "rows with 0.0 and -0.0": (share(lambda row: np.where(row, row, -0.0)),),
        "the same single number": (single(0.5, 0.5),),
        "the same single row": (single_rows(*range(5)),),
        # Distances that are computed by products of matrices are 0 for equal rows in about half of the cases.
        **{f"many rows, number {row} of them shared": (many(row),) for row in (0, 7, 30, 59)},
    },
}
