"""03a-graph: the values and the gradients of two small graphs, by formulas that were found by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion


def _square(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    values, gradients = functions["square_graph"](inputs["w"], inputs["x"], inputs["b"])
    return {"values": list(values), "gradients": list(gradients)}


def _relu(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    values, gradients = functions["relu_graph"](inputs["w1"], inputs["w2"], inputs["x"], inputs["y"])
    return {"values": list(values), "gradients": list(gradients)}


Numbers = Sequence[float]


def _part(part: str, *, values: Numbers | None = None, gradients: Numbers | None = None) -> dict[str, Any]:
    """A part's fields, those that are given."""
    fields = {"values": values, "gradients": gradients}
    return {part: {name: list(numbers) for name, numbers in fields.items() if numbers is not None}}


# Every case has the numbers of both graphs: each part reads its own.
def _inputs(w: float, b: float, w1: float, w2: float, x: float, y: float) -> dict[str, float]:
    return {"w": w, "b": b, "w1": w1, "w2": w2, "x": x, "y": y}


QUESTION = PublicQuestion(
    id="03a-graph",
    title="trace a graph by hand",
    functions=("square_graph", "relu_graph"),
    parts={"square": _square, "relu": _relu},
    relative_tolerance=1e-5,  # float32 is precise enough
    cases=(
        PublicCase(
            name="the lecture's numbers",
            inputs=_inputs(w=3.0, b=1.0, w1=0.5, w2=0.5, x=2.0, y=1.0),
            expected={
                **_part("square", values=(6.0, 7.0, 49.0), gradients=(28.0, 42.0, 14.0)),
                **_part("relu", values=(1.0, 0.5, 0.25), gradients=(-1.0, -1.0)),
            },
            mistakes={
                "outer-slope-missing": _part("square", gradients=(2.0, 3.0, 1.0)),
                "inner-slope-missing": _part("square", gradients=(14.0, 14.0, 14.0)),
                "factors-swapped": _part("square", gradients=(42.0, 28.0, 14.0)),
                "two-missing": _part("square", gradients=(14.0, 21.0, 7.0)),
                "slope-of-loss": _part("square", gradients=(196.0, 294.0, 98.0)),
                "sign-turned": _part("relu", gradients=(1.0, 1.0)),
                "second-weight-missing": _part("relu", gradients=(-2.0, -1.0)),
            },
        ),
        PublicCase(
            name="other numbers, the second gate closed",
            inputs=_inputs(w=-1.0, b=5.0, w1=1.5, w2=-2.0, x=4.0, y=3.0),
            expected={
                **_part("square", values=(-4.0, 1.0, 1.0), gradients=(8.0, -2.0, 2.0)),
                **_part("relu", values=(6.0, 0.0, 9.0), gradients=(0.0, 0.0)),
            },
            mistakes={
                "same-for-all-inputs": {
                    **_part("square", values=(6.0, 7.0, 49.0)),
                    **_part("relu", values=(1.0, 0.5, 0.25)),
                },
                "relu-left-out": _part("relu", values=(6.0, -12.0, 225.0)),
                "gates-ignored": _part("relu", gradients=(48.0, -36.0)),
            },
        ),
        PublicCase(
            name="the first gate closed",
            inputs=_inputs(w=2.0, b=0.5, w1=-1.0, w2=3.0, x=1.0, y=2.0),
            expected={
                **_part("square", values=(2.0, 2.5, 6.25), gradients=(5.0, 10.0, 5.0)),
                **_part("relu", values=(0.0, 0.0, 4.0), gradients=(0.0, 0.0)),
            },
            mistakes={
                "relu-left-out": _part("relu", values=(-1.0, -3.0, 25.0)),
                "gates-ignored": _part("relu", gradients=(-12.0, 0.0)),
            },
        ),
    ),
    misconceptions={
        "outer-slope-missing": Misconception(
            "the slope of the square is missing: these are the gradients of v, not of v squared",
            "the last edge of the graph, from v to L, and what it multiplies",
        ),
        "inner-slope-missing": Misconception(
            "the walk back stopped at v: all three gradients are the gradient of v",
            "the edges from v back to w, x and b: each has a slope of its own",
        ),
        "factors-swapped": Misconception(
            "the gradients of w and x are exchanged: the slope of a product towards one factor is the other factor",
            "how much w·x grows when w grows by a little",
        ),
        "two-missing": Misconception(
            "every gradient is half of what it should be: the square's exponent was lost",
            "the derivative of v squared",
        ),
        "slope-of-loss": Misconception(
            "the square's slope was taken at L instead of at v",
            "at which number a local slope is computed: the operation's input or its output",
        ),
        "sign-turned": Misconception(
            "every gradient has the wrong sign: p should be compared with y, not y with p",
            "whether the loss rises or falls when p grows a little while it is below y",
        ),
        "second-weight-missing": Misconception(
            "the gradient of w1 does not pass through w2",
            "every edge on the way from L back to w1",
        ),
        "gates-ignored": Misconception(
            "a gradient came through a relu whose input is negative: that gate is closed",
            "the slope of relu to the left of zero, at both gates",
        ),
        "relu-left-out": Misconception(
            "a value is negative behind a relu",
            "what relu makes of a negative number",
        ),
        "same-for-all-inputs": Misconception(
            "the lecture's numbers come back whatever goes in",
            "where each number comes from: the functions are asked for formulas",
        ),
    },
)
