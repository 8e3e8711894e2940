"""03b-inspect: find what is wrong with a data set before any model sees it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

PROBLEMS = ("range", "dtype", "labels", "duplicates", "class-stacked")


def _inspect(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    arrays = [torch.tensor(inputs[name]) for name in ("x_train", "y_train", "x_val", "y_val")]
    found = functions["inspect_data"](*arrays, inputs["classes"])
    if not isinstance(found, Set):
        raise TypeError(f"inspect_data returned a {type(found).__name__}, not a set of problem names")
    return {"problems": set(found)}


_X_TRAIN = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.5]], dtype=np.float32)
_X_VAL = np.array([[0.2, 0.8], [0.7, 0.3]], dtype=np.float32)
_Y_TRAIN = np.array([0, 1, 0, 1])
_CLEAN: dict[str, Any] = {
    "x_train": _X_TRAIN,
    "y_train": _Y_TRAIN,
    "x_val": _X_VAL,
    "y_val": np.array([0, 1]),
    "classes": 2,
}


def _problems(*names: str) -> dict[str, dict[str, list[str]]]:
    return {"problems": {"problems": sorted(names)}}


_ALWAYS = {"always-alarm": _problems(*PROBLEMS)}


def _faulty(problem: str, name: str, missed_by: str = "never-alarm", **changes: Any) -> PublicCase:
    """A data set with one problem; `missed_by` is the misconception that reports nothing for it."""
    return PublicCase(name, {**_CLEAN, **changes}, _problems(problem), {**_ALWAYS, missed_by: _problems()})


QUESTION = PublicQuestion(
    id="03b-inspect",
    title="inspect a data set",
    functions=("inspect_data",),
    parts={"problems": _inspect},
    cases=(
        PublicCase("a clean data set", _CLEAN, _problems(), _ALWAYS),
        PublicCase(
            "clean, standardised: values between -3 and 3",
            {**_CLEAN, "x_train": (_X_TRAIN - 0.5) * 6, "x_val": (_X_VAL - 0.5) * 6},
            _problems(),
            {**_ALWAYS, "range-is-unit": _problems("range")},
        ),
        PublicCase(
            "clean, one row twice within training",
            {**_CLEAN, "x_train": _X_TRAIN[[0, 1, 2, 0]]},
            _problems(),
            {**_ALWAYS, "duplicates-within": _problems("duplicates")},
        ),
        _faulty("range", "raw pixels, 0 to 255", x_train=_X_TRAIN * 255, x_val=_X_VAL * 255),
        _faulty("range", "raw pixels in validation only", "training-only", x_val=_X_VAL * 255),
        _faulty("dtype", "labels as float32", "inputs-dtype-only", y_train=np.array([0, 1, 0, 1], dtype=np.float32)),
        _faulty(
            "labels", "labels 1, 2 for 2 classes", "labels-off-by-one", y_train=_Y_TRAIN + 1, y_val=np.array([1, 2])
        ),
        _faulty("labels", "labels -1, 0", "negative-labels", y_train=_Y_TRAIN - 1, y_val=np.array([-1, 0])),
        _faulty(
            "duplicates",
            "a training row again in validation, with another label",
            "same-position-only",
            x_val=np.stack([_X_TRAIN[3], _X_VAL[1]]),
        ),
        _faulty("class-stacked", "validation holds one class only", y_val=np.array([1, 1])),
        _faulty(
            "class-stacked",
            "classes 0, 1 in training and 2, 3 in validation",
            "compare-counts",
            y_val=np.array([2, 3]),
            classes=4,
        ),
    ),
    misconceptions={
        "always-alarm": Misconception(
            "every problem is reported for every data set: an alarm that always rings warns of nothing",
            "what each condition says about the clean data set",
        ),
        "never-alarm": Misconception(
            "no problem is reported for any data set",
            "the conditions one at a time, each on the data set that shows it",
        ),
        "range-is-unit": Misconception(
            "standardised inputs raise a range alarm: values outside [0, 1] or [-1, 1] are ordinary",
            "the limit that the question states",
        ),
        "inputs-dtype-only": Misconception(
            "only the inputs' dtype was looked at; labels stored as floats went through",
            "what dtype CrossEntropyLoss wants for class indices",
        ),
        "labels-off-by-one": Misconception(
            "a label equal to the number of classes went through: valid labels end at classes - 1",
            "the largest label that a network with that many outputs can be asked for",
        ),
        "negative-labels": Misconception(
            "negative labels went through",
            "both ends of the range of valid labels",
        ),
        "duplicates-within": Misconception(
            "a row that occurs twice within training was called a leak; only rows shared by both parts are",
            "which two sets of rows are compared",
        ),
        "same-position-only": Misconception(
            "rows were compared position by position; a copy can stand anywhere",
            "whether every validation row is compared with every training row",
        ),
        "compare-counts": Misconception(
            "the numbers of classes were compared; the classes themselves can differ",
            "which classes occur in each part, not how many",
        ),
        "training-only": Misconception(
            "only the training part was looked at; the same problem in the validation part went through",
            "whether each condition is applied to both parts",
        ),
    },
)
