"""03a-contract: each of five problems reported wherever it is, alone and beside others, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.contract import PROBLEMS

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .contract_cases import Array, case, domain, draw, spoilt

Rule = Callable[[Array, Array, bool], Any]
"""Whether a batch has a problem, from x, y and whether x is handed over as bfloat16."""


def outside(x: Array, low: float = -10.0, high: float = 10.0) -> Array:
    return ~((x >= low) & (x <= high))


RULES: dict[str, Rule] = {
    "x.shape": lambda x, y, bfloat16: x.ndim not in (2, 4),
    "x.dtype": lambda x, y, bfloat16: x.dtype != np.float32,  # bfloat16 is made of float32
    "x.range": lambda x, y, bfloat16: outside(x).any(),
    "y.shape": lambda x, y, bfloat16: y.ndim != 1 or len(y) != len(x),
    "y.dtype": lambda x, y, bfloat16: y.dtype != np.int64,
}


def reported(rules: Mapping[str, Rule], case: Case, most: int = len(RULES), of_each: bool = False) -> dict[str, str]:
    """What is observed of an answer that reports the problems by these rules, `most` of them, or of each tensor's."""
    x, y, bfloat16 = (case.inputs[name] for name in ("x", "y", "bfloat16"))
    problems = [name for name, rule in rules.items() if rule(x, y, bfloat16)]
    tensors = ("x.", "y.") if of_each else ("",)
    problems = [name for tensor in tensors for name in [p for p in problems if p.startswith(tensor)][:most]]
    return {f"problems.{name}": "reported" if name in problems else "not reported" for name in PROBLEMS}


def with_rule(name: str, rule: Rule) -> Simulation:
    return lambda case: {f"problems.{name}": reported({name: rule}, case)[f"problems.{name}"]}


def with_channels(*allowed: int) -> Simulation:
    return with_rule("x.shape", lambda x, y, bfloat16: x.ndim != 2 and (x.ndim != 4 or x.shape[1] not in allowed))


PIXELS = np.linspace(0.0, 1.0, 12, dtype=np.float32)
GREY, RGB, LABELS = PIXELS.reshape(3, 1, 2, 2), PIXELS.reshape(1, 3, 2, 2), np.array([2, 0, 1])


def visible(name: str, x: Array = GREY, y: Array = LABELS) -> Case:
    return case(name, x, y)


QUESTION = Description(
    id="03a-contract",
    parts=tuple(
        Graded(name, points, (f"problems.{name}",)) for name, points in zip(PROBLEMS, (2, 1, 2, 2, 1), strict=True)
    ),
    reference=lambda case: reported(RULES, case),
    mistakes=(
        Mistake(
            "always-alarm",
            "every problem is reported for every batch: an alarm that always rings warns of nothing",
            "what each condition says about a good batch",
            lambda case: reported(dict.fromkeys(PROBLEMS, lambda x, y, bfloat16: True), case),
        ),
        Mistake(
            "never-alarm",
            "no problem is reported for any batch",
            "the conditions one at a time, each on the batch that shows it",
            lambda case: reported({}, case),
        ),
        Mistake(
            "first-problem-only",
            "of several problems only the first was reported",
            "whether the conditions after the first that fails are still reached",
            lambda case: reported(RULES, case, most=1),
            also=(lambda case: reported(RULES, case, most=1, of_each=True),),
        ),
        Mistake(
            "range-after-dtype",
            "the range was only looked at when the dtype of x was right",
            "raw pixels, which have two problems: no condition waits for another",
            with_rule("x.range", lambda x, y, bfloat16: x.dtype == np.float32 and outside(x).any()),
        ),
        Mistake(
            "labels-after-shape",
            "the shape of y was only looked at when the shape of x was right",
            "a batch with both problems: no condition waits for another",
            with_rule("y.shape", lambda x, y, bfloat16: x.ndim in (2, 4) and RULES["y.shape"](x, y, bfloat16)),
        ),
        Mistake(
            "grey-only",
            "images were refused for their channels: the contract says how many dimensions, not how many channels",
            "which of the four sizes the contract fixes",
            with_channels(1),
            also=(with_channels(1, 3),),
        ),
        Mistake(
            "images-only",
            "vectors were refused, which the contract allows beside images",
            "the two numbers of dimensions that are allowed",
            with_rule("x.shape", lambda x, y, bfloat16: x.ndim != 4),
        ),
        Mistake(
            "at-least-four",
            "five dimensions went through",
            "whether the number of dimensions is compared for equality",
            with_rule("x.shape", lambda x, y, bfloat16: x.ndim < 2 or x.ndim == 3),
        ),
        Mistake(
            "two-to-four",
            "three dimensions went through: an image without its batch dimension has three",
            "the two numbers of dimensions that are allowed",
            with_rule("x.shape", lambda x, y, bfloat16: not 2 <= x.ndim <= 4),
        ),
        Mistake(
            "float32-only",
            "bfloat16 inputs were refused, which the contract allows",
            "the two dtypes that are allowed for inputs",
            with_rule("x.dtype", lambda x, y, bfloat16: x.dtype != np.float32 or bfloat16),
        ),
        Mistake(
            "any-float",
            "float64 inputs went through; a float32 model stops with an error at its first layer",
            "which floating dtypes the contract names; NumPy makes another one by default",
            with_rule("x.dtype", lambda x, y, bfloat16: x.dtype.kind != "f"),
        ),
        Mistake(
            "any-half",
            "float16 inputs went through; of the two formats with 16 bits the contract names bfloat16",
            "the two dtypes that are allowed for inputs",
            with_rule("x.dtype", lambda x, y, bfloat16: x.dtype not in (np.float32, np.float16)),
        ),
        Mistake(
            "range-is-unit",
            "standardised inputs raise a range alarm: values outside [0, 1] are ordinary",
            "the limit that the question states",
            with_rule("x.range", lambda x, y, bfloat16: outside(x, 0.0, 1.0).any()),
        ),
        Mistake(
            "one-sided",
            "only large values were looked for; very negative ones went through",
            "both ends of the range",
            with_rule("x.range", lambda x, y, bfloat16: outside(x, low=-np.inf).any()),
            also=(with_rule("x.range", lambda x, y, bfloat16: (x > 10).any()),),
        ),
        Mistake(
            "one-limit-is-enough",
            "a batch went through that keeps only one of the two limits",
            "whether both limits must hold, or one of them",
            # In torch, -10 is 246 beside a uint8 tensor, so raw pixels keep neither limit.
            with_rule("x.range", lambda x, y, bfloat16: x.dtype == np.uint8 or not (x.min() >= -10 or x.max() <= 10)),
        ),
        Mistake(
            "nan-passes",
            "NaN went through: every comparison with NaN is false, so `x > 10` does not find it",
            "what your condition gives for NaN, and whether it can be turned round",
            with_rule("x.range", lambda x, y, bfloat16: (np.abs(x.astype(np.float64)) > 10).any()),
            also=(with_rule("x.range", lambda x, y, bfloat16: (np.abs(x) > 10).any()),),
        ),
        Mistake(
            "smallest-integer",
            "-128 in int8 went through: 128 is no int8, so its absolute value is -128 again",
            "a condition without `abs`, or the dtype in which it is computed",
            with_rule("x.range", lambda x, y, bfloat16: not (np.abs(x) <= 10).all()),
        ),
        Mistake(
            "bounds-excluded",
            "exactly 10 and -10 were reported, which the contract allows",
            "whether the comparisons include the ends of the range",
            with_rule("x.range", lambda x, y, bfloat16: (~(np.abs(x.astype(np.float64)) < 10)).any()),
        ),
        Mistake(
            "squeezed",
            "dimensions of size 1 were dropped: a batch of one loses its batch dimension, a column looks like a vector",
            "the unchanged shape, for one label and for a column of labels",
            with_rule("y.shape", lambda x, y, bfloat16: y.squeeze().ndim != 1 or len(y) != len(x)),
            also=(with_rule("y.shape", lambda x, y, bfloat16: y.squeeze().shape != x.shape[:1]),),
        ),
        Mistake(
            "entries-counted",
            "a column of labels went through: it has as many entries as there are examples, but two dimensions",
            "what `numel()` says about the shape",
            with_rule("y.shape", lambda x, y, bfloat16: y.size != len(x)),
            also=(with_rule("y.shape", lambda x, y, bfloat16: not y.size == len(y) == len(x)),),
        ),
        Mistake(
            "count-not-compared",
            "there were fewer labels than examples, and nothing was reported",
            "the first dimension of both tensors",
            with_rule("y.shape", lambda x, y, bfloat16: y.ndim != 1),
        ),
        Mistake(
            "dimensions-not-compared",
            "the labels were counted, but a column of labels or one-hot rows went through",
            "how many dimensions a column of labels has",
            with_rule("y.shape", lambda x, y, bfloat16: len(y) != len(x)),
        ),
        Mistake(
            "fewer-labels-only",
            "a label too many went through",
            "whether the two numbers are compared for equality",
            with_rule("y.shape", lambda x, y, bfloat16: y.ndim != 1 or len(y) < len(x)),
        ),
        Mistake(
            "any-integer",
            "int32 labels went through; CrossEntropyLoss takes class indices as int64",
            "the one dtype that the contract names for labels",
            with_rule("y.dtype", lambda x, y, bfloat16: y.dtype.kind == "f"),
            also=(with_rule("y.dtype", lambda x, y, bfloat16: y.dtype not in (np.int64, np.int32)),),
        ),
    ),
    visible=(
        visible("good: three grey images"),
        visible("good: a batch of one RGB image", RGB, LABELS[:1]),
        visible("good: five channels", np.concatenate([RGB, RGB[:, :2]], axis=1), LABELS[:1]),
        visible("good: vectors [3, 4]", PIXELS.reshape(3, 4)),
        visible("good: standardised, -3 to 3", (GREY - GREY.mean()) * 6),
        visible("good: from exactly -10 to exactly 10", GREY * 20 - 10),
        visible("good: bfloat16 inputs"),
        visible("one image without its batch dimension", GREY[0], LABELS[:1]),
        visible("one dimension too many", GREY[:, None]),
        visible("one dimension only", PIXELS[:3]),
        visible("raw pixels, uint8, 0 to 255", np.rint(GREY * 255).astype(np.uint8)),
        visible("float64 inputs", GREY.astype(np.float64)),
        visible("float16 inputs", GREY.astype(np.float16)),
        visible("float32, still 0 to 255", GREY * 255),
        visible("one entry is 10.0625", spoilt(10.0625, -1)(GREY)),
        visible("int8 inputs, one entry is -128", spoilt(-128, 0)(np.rint(GREY * 3).astype(np.int8))),
        visible("float32, down to -100", -100 * GREY),
        visible("one entry is NaN", spoilt(float("nan"), 6)(GREY)),
        visible("one-hot labels, int64", y=np.eye(3, dtype=np.int64)),
        visible("labels as a column [3, 1]", y=LABELS[:, None]),
        visible("labels as a row [1, 3]", y=LABELS[None]),
        visible("two labels for three images", y=LABELS[:2]),
        visible("four labels for three images", y=np.append(LABELS, 0)),
        visible("float32 labels", y=LABELS.astype(np.float32)),
        visible("int32 labels", y=LABELS.astype(np.int32)),
        visible("uint8 labels", y=LABELS.astype(np.uint8)),
        visible("every problem", np.rint(GREY[None] * 255).astype(np.uint8), LABELS[:, None].astype(np.float32)),
    ),
    draw=draw,
    domain=domain,
)
