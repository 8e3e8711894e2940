"""03a-contract: say what keeps a batch from meeting the contract, before any model sees it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

PROBLEMS = ("x.shape", "x.dtype", "x.range", "y.shape", "y.dtype")


def _check(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    x, y = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
    # Plain data have no bfloat16: it is made here.
    found = functions["check_batch"](x.bfloat16() if inputs["bfloat16"] else x, y)
    if not isinstance(found, Set | list | tuple):
        raise TypeError(f"check_batch returned a {type(found).__name__}, not a set of problem names")
    return {"problems": set(found)}


_PIXELS = np.linspace(0.0, 1.0, 24, dtype=np.float32)
_GREY, _RGB = _PIXELS[:12].reshape(3, 1, 2, 2), _PIXELS[:12].reshape(1, 3, 2, 2)
_LABELS = np.array([2, 0, 1])
_WITH_NAN = _GREY.copy()
_WITH_NAN[1, 0, 1, 0] = np.nan


def _problems(*names: str) -> dict[str, dict[str, list[str]]]:
    return {"problems": {"problems": sorted(names)}}


def _good(name: str, mistakes: dict[str, str], x: np.ndarray = _GREY, y: np.ndarray = _LABELS) -> PublicCase:
    """A sound batch; `mistakes` maps a misconception to the problem that it reports."""
    shown = {known: _problems(problem) for known, problem in mistakes.items()}
    inputs = {"x": x, "y": y, "bfloat16": "bfloat16" in name}
    return PublicCase(name, inputs, _problems(), {"always-alarm": _problems(*PROBLEMS), **shown})


def _bad(
    name: str, problems: str, missed_by: str = "never-alarm", x: np.ndarray = _GREY, y: np.ndarray = _LABELS
) -> PublicCase:
    """A batch with problems; `missed_by` is the misconception that reports nothing for it."""
    mistakes = {"always-alarm": _problems(*PROBLEMS), missed_by: _problems()}
    if " " in problems:
        mistakes["first-problem-only"] = _problems(problems.split()[0])
    return PublicCase(name, {"x": x, "y": y, "bfloat16": False}, _problems(*problems.split()), mistakes)


QUESTION = PublicQuestion(
    id="03a-contract",
    title="check a batch against its contract",
    functions=("check_batch",),
    parts={"problems": _check},
    ready_made=("lecture_lib.data.check_contract", "lecture_lib.data.contract.check_contract"),
    cases=(
        _good("good: three grey images", {}),
        _good("good: a batch of one RGB image", {"squeezed": "y.shape", "grey-only": "x.shape"}, _RGB, _LABELS[:1]),
        _good("good: vectors [3, 4]", {"images-only": "x.shape"}, _PIXELS[:12].reshape(3, 4)),
        _good("good: standardised, -3 to 3", {"range-is-unit": "x.range"}, (_GREY - _GREY.mean()) * 12),
        _good("good: bfloat16 inputs", {"float32-only": "x.dtype"}),
        _bad("one image without its batch dimension", "x.shape", x=_GREY[0], y=_LABELS[:1]),
        _bad("one dimension too many", "x.shape", "at-least-four", x=_GREY[:, None]),
        _bad("raw pixels, uint8, 0 to 255", "x.dtype x.range", x=np.rint(_GREY * 500).astype(np.uint8)),
        _bad("float64 inputs", "x.dtype", "any-float", x=_GREY.astype(np.float64)),
        _bad("float32, still 0 to 255", "x.range", x=_GREY * 500),
        _bad("float32, down to -100", "x.range", "one-sided", x=-200 * _GREY),
        _bad("one entry is NaN", "x.range", "nan-passes", x=_WITH_NAN),
        _bad("one-hot labels, int64", "y.shape", y=np.eye(3, dtype=np.int64)),
        _bad("labels as a column [3, 1]", "y.shape", "squeezed", y=_LABELS[:, None]),
        _bad("two labels for three images", "y.shape", "count-not-compared", y=_LABELS[:2]),
        _bad("float32 labels", "y.dtype", y=_LABELS.astype(np.float32)),
        _bad("int32 labels", "y.dtype", "any-integer", y=_LABELS.astype(np.int32)),
    ),
    misconceptions={
        "always-alarm": Misconception(
            "every problem is reported for every batch: an alarm that always rings warns of nothing",
            "what each condition says about a good batch",
        ),
        "never-alarm": Misconception(
            "no problem is reported for this batch",
            "the conditions one at a time, each on the batch that shows it",
        ),
        "first-problem-only": Misconception(
            "a batch with two problems had only the first one reported",
            "whether the conditions after the first that fails are still reached",
        ),
        "squeezed": Misconception(
            "dimensions of size 1 were dropped before counting: a batch of one loses its batch dimension, and a column "
            "looks like a vector",
            "the shape as it is, for one label and for a column of labels",
        ),
        "grey-only": Misconception(
            "RGB images were refused: the contract says how many dimensions, not how many channels",
            "which of the four sizes the contract fixes",
        ),
        "images-only": Misconception(
            "vectors were refused, which the contract allows beside images",
            "the two numbers of dimensions that are allowed",
        ),
        "at-least-four": Misconception(
            "five dimensions went through",
            "whether the number of dimensions is compared for equality",
        ),
        "range-is-unit": Misconception(
            "standardised inputs raise a range alarm: values outside [0, 1] or [-1, 1] are ordinary",
            "the limit that the question states",
        ),
        "float32-only": Misconception(
            "bfloat16 inputs were refused, which the contract allows",
            "the two dtypes that are allowed for inputs",
        ),
        "any-float": Misconception(
            "float64 inputs went through; a float32 model stops with an error at its first layer",
            "which floating dtypes the contract names; NumPy makes another one by default",
        ),
        "one-sided": Misconception(
            "only large values were looked for; very negative ones went through",
            "both ends of the range",
        ),
        "nan-passes": Misconception(
            "NaN went through: every comparison with NaN is false, so `x > 10` does not find it",
            "what your condition gives for NaN, and whether it can be turned round",
        ),
        "count-not-compared": Misconception(
            "there were fewer labels than examples, and nothing was reported",
            "the first dimension of both tensors",
        ),
        "any-integer": Misconception(
            "int32 labels went through; CrossEntropyLoss takes class indices as int64",
            "the one dtype that the contract names for labels",
        ),
    },
)
