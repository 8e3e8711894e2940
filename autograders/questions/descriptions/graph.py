"""03a-graph: values and gradients of (w·x + b)² and of two relu layers, with each gate open, closed and at the kink.

The reference of the first graph is the polynomial multiplied out, without the chain rule. Autograd gives the same
numbers; that is allowed and cannot be observed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

Numbers = list[float]


def square_values(w: float, x: float, b: float, **_: float) -> Numbers:
    return [w * x, w * x + b, w * w * x * x + 2 * w * x * b + b * b]


def square_gradients(w: float, x: float, b: float, **_: float) -> Numbers:
    """The derivatives of w²x² + 2wxb + b²."""
    return [2 * w * x * x + 2 * x * b, 2 * w * w * x + 2 * w * b, 2 * w * x + 2 * b]


def relu(number: float) -> float:
    return max(0.0, number)


def linear(number: float) -> float:
    return number


def relu_values(
    w1: float,
    w2: float,
    x: float,
    y: float,
    first: Callable[[float], float] = relu,
    second: Callable[[float], float] = relu,
    **_: float,
) -> Numbers:
    h = first(w1 * x)
    p = second(w2 * h)
    return [h, p, (p - y) ** 2]


def step(number: float, at_zero: float = 0.0) -> float:
    return 1.0 if number > 0 else at_zero if number == 0 else 0.0


def always_open(number: float) -> float:
    return 1.0


def relu_gradients(
    w1: float,
    w2: float,
    x: float,
    y: float,
    first: Callable[[float], float] = step,
    second: Callable[[float], float] = step,
    **_: float,
) -> Numbers:
    """The gradients of w1 and w2, with the slopes of the two gates."""
    h, p, _loss = relu_values(w1, w2, x, y)
    towards_z = 2 * (p - y) * second(w2 * h)
    return [towards_z * w2 * first(w1 * x) * x, towards_z * h]


VALUES, GRADIENTS, RELU_VALUES, RELU_GRADIENTS = "square.values", "square.gradients", "relu.values", "relu.gradients"


def gradients(towards: Callable[..., Numbers]) -> Simulation:
    """Gradients of the square graph from w, x, b and v."""
    return given({GRADIENTS: lambda w, x, b, **_: towards(w, x, b, w * x + b)})


def changed_relu(change: Callable[[Numbers, float], Numbers]) -> Simulation:
    """Gradients of the relu graph from the right ones and w2."""
    return given({RELU_GRADIENTS: lambda w2, **numbers: change(relu_gradients(w2=w2, **numbers), w2)})


def gates(first: Callable[[float], float] = step, second: Callable[[float], float] = step) -> Simulation:
    return given({RELU_GRADIENTS: partial(relu_gradients, first=first, second=second)})


def first_past_the_second_gate(case: Case) -> dict[str, Numbers]:
    """Only the gradient of w1 ignores the second gate."""
    passed, right = (relu_gradients(**case.inputs, second=gate) for gate in (always_open, step))
    return {RELU_GRADIENTS: [passed[0], right[1]]}


def emptied(values: Callable[[float, float, float], Numbers | None]) -> Simulation:
    """Values of the relu graph that a shortcut for closed gates returns, or the right ones."""

    def shortcut(y: float, **numbers: Any) -> Numbers:
        h, p, loss = relu_values(y=y, **numbers)
        return values(h, p, y) or [h, p, loss]

    return given({RELU_VALUES: shortcut})


def left_out(first: Callable[[float], float] = relu, second: Callable[[float], float] = relu) -> Simulation:
    return given({RELU_VALUES: partial(relu_values, first=first, second=second)})


# kind, then the signs of x, of the input of the first gate, of w2, and of p - y.
GATES = (
    *(("both gates open", x, 1, 1, above) for x in (-1, 1) for above in (-1, 1)),
    *(("the first gate closed", x, -1, 1, x) for x in (-1, 1)),
    *(("the second gate closed", x, 1, -1, x) for x in (-1, 1)),
    *(("both gates closed", x, -1, -1, x) for x in (-1, 1)),
    *(("the first gate at 0", x, 0, 1, x) for x in (-1, 1)),
    *(("the second gate at 0", x, 1, 0, x) for x in (-1, 1)),
)


# kind -> what is set after the other numbers are drawn in quarters, with both gates open.
SPECIAL: dict[str, dict[str, Callable[..., float]]] = {
    "x is 0": {"x": lambda **_: 0.0},
    "w is 0": {"w": lambda **_: 0.0},
    "b is 0": {"b": lambda **_: 0.0},
    "v is 0": {"b": lambda w, x, **_: -w * x},
    "y is 0": {"y": lambda **_: 0.0},
    "p is y": {"y": lambda w1, w2, x, **_: w1 * w2 * x},
    "the first gate just open": {"w1": lambda x, **_: 1e-6 * np.sign(x)},
    "the first gate just closed": {"w1": lambda x, **_: -1e-6 * np.sign(x)},
    "the second gate just open": {"w2": lambda **_: 1e-6},
    "the second gate just closed": {"w2": lambda **_: -1e-6},
}


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each state of the gates with both signs of x, and w and b of all signs.

    Some numbers are exactly 0 while the others are not, and some gates nearly so. Two cases have the same w, w1, w2, x.
    """
    cases = []
    for number, (kind, sign, first, second, above) in enumerate(GATES):
        w, b, w1, w2, x, gap = (float(size) for size in rng.uniform(0.5, 2.0, 6))
        numbers = {
            "w": w * (-1) ** (number // 2),
            "b": b * (-1) ** (number // 4),
            "w1": w1 * first * sign,
            "w2": w2 * second,
            "x": x * sign,
        }
        cases.append(Case(kind, {**numbers, "y": relu_values(**numbers, y=0.0)[1] - gap * above}))
    for kind, zeros in SPECIAL.items():
        w, x, b, w1, w2, y = (float(number) for number in rng.integers(2, 9, 6) / 4 * rng.choice([-1, 1], 6))
        numbers = {"w": w, "x": x, "b": b, "w1": abs(w1) * np.sign(x), "w2": abs(w2), "y": y}
        cases.append(Case(kind, numbers | {name: float(number(**numbers)) for name, number in zeros.items()}))
    # What a function keeps from an earlier call must not stand for this one.
    before = next(drawn.inputs for drawn in cases if drawn.kind == "y is 0")
    changed = {"b": before["b"] + 1, "y": before["y"] + 1}
    cases.append(Case("the same weights and x, another b and y", {**before, **changed}))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Quarters from -2 to 2, often 0, often equal; float32 computes with them exactly."""
    numbers = {name: float(rng.integers(-8, 9)) / 4 for name in ("w", "b", "w1", "w2", "x", "y")}
    if numbers["w1"] == 0:  # finite differences do not see this kink behind a shut gate
        numbers["w2"] = abs(numbers["w2"])
    return Case("domain", numbers)


def visible(name: str, w: float, b: float, w1: float, w2: float, x: float, y: float) -> Case:
    """Every case has the numbers of both graphs."""
    return Case(name, {"w": w, "b": b, "w1": w1, "w2": w2, "x": x, "y": y})


QUESTION = Description(
    id="03a-graph",
    parts=(
        Graded("square values", 0.5, (VALUES,)),
        Graded("square gradients", 0.5, (GRADIENTS,)),
        Graded("relu values", 0.5, (RELU_VALUES,)),
        Graded("relu gradients", 0.5, (RELU_GRADIENTS,)),
    ),
    reference=given(
        {
            VALUES: square_values,
            GRADIENTS: square_gradients,
            RELU_VALUES: relu_values,
            RELU_GRADIENTS: relu_gradients,
        }
    ),
    mistakes=(
        Mistake(
            "same-for-all-inputs",
            "the lecture's values come back whatever goes in",
            "where each number comes from: the functions are asked for formulas",
            given({VALUES: lambda **_: [6.0, 7.0, 49.0], RELU_VALUES: lambda **_: [1.0, 0.5, 0.25]}),
        ),
        Mistake(
            "same-gradients-for-all-inputs",
            "the lecture's gradients come back whatever goes in",
            "which numbers of the forward pass each gradient depends on",
            given({GRADIENTS: lambda **_: [28.0, 42.0, 14.0], RELU_GRADIENTS: lambda **_: [-1.0, -1.0]}),
        ),
        Mistake(
            "outer-slope-missing",
            "the slope of the square is missing: these are the gradients of v, not of v squared",
            "the last edge of the graph, from v to L, and what it multiplies",
            gradients(lambda w, x, b, v: [x, w, 1.0]),
        ),
        Mistake(
            "inner-slope-missing",
            "the backward pass stopped at v: all three gradients are the gradient of v",
            "the edges from v back to w, x and b: each has a slope of its own",
            gradients(lambda w, x, b, v: [2 * v, 2 * v, 2 * v]),
        ),
        Mistake(
            "factors-swapped",
            "the gradients of w and x are exchanged: the slope of a product towards one factor is the other factor",
            "how much w·x grows when w grows by a little",
            gradients(lambda w, x, b, v: [2 * v * w, 2 * v * x, 2 * v]),
        ),
        Mistake(
            "two-missing",
            "every gradient is half of what it should be: the square's exponent was lost",
            "the derivative of v squared",
            gradients(lambda w, x, b, v: [v * x, v * w, v]),
        ),
        Mistake(
            "slope-of-loss",
            "the square's slope was taken at L instead of at v",
            "at which number a local slope is computed: the operation's input or its output",
            gradients(lambda w, x, b, v: [2 * v * v * x, 2 * v * v * w, 2 * v * v]),
        ),
        Mistake(
            "slope-before-the-sum",
            "the square's slope was taken at u instead of at v, so b is missing from it",
            "what is squared in the forward pass",
            gradients(lambda w, x, b, v: [2 * (v - b) * x, 2 * (v - b) * w, 2 * (v - b)]),
        ),
        Mistake(
            "root-of-loss",
            "the square's slope was computed from L: the root of v squared is v without its sign",
            "a negative v, and what its square grows by when v grows by a little",
            gradients(lambda w, x, b, v: [2 * abs(v) * x, 2 * abs(v) * w, 2 * abs(v)]),
        ),
        Mistake(
            "sum-as-product",
            "the gradient of b was multiplied by b: the slope of a sum is 1",
            "how much u + b grows when b grows by a little",
            gradients(lambda w, x, b, v: [2 * v * x, 2 * v * w, 2 * v * b]),
        ),
        Mistake(
            "sum-stops-the-gradient",
            "the gradient of b is 1: it has the slope of the sum, without what comes from L",
            "every edge on the way from L back to b",
            gradients(lambda w, x, b, v: [2 * v * x, 2 * v * w, 1.0]),
        ),
        Mistake(
            "relu-left-out",
            "no relu was applied: a value after one is negative",
            "what relu makes of a negative number",
            left_out(first=linear, second=linear),
        ),
        Mistake(
            "first-relu-left-out",
            "h is negative when w1·x is: the first relu was left out",
            "the two places where the graph has a relu",
            left_out(first=linear),
        ),
        Mistake(
            "second-relu-left-out",
            "p is negative when w2·h is: the second relu was left out",
            "the two places where the graph has a relu",
            left_out(second=linear),
        ),
        Mistake(
            "closed-gate-empties",
            "a closed gate also made a value 0 that lies before it, or the loss",
            "which values a closed gate changes: h does not depend on the second gate, and L is y squared when p is 0",
            emptied(lambda h, p, y: [0.0, 0.0, y**2] if p == 0 else None),
            also=(
                emptied(lambda h, p, y: [0.0, 0.0, 0.0] if h == 0 else None),
                emptied(lambda h, p, y: [h, 0.0, 0.0] if p == 0 else None),
                emptied(lambda h, p, y: [0.0, 0.0, 0.0] if p == 0 else None),
            ),
        ),
        Mistake(
            "sign-turned",
            "every gradient has the wrong sign: the derivative of (p - y)² towards p is 2(p - y)",
            "whether the loss rises or falls when p grows a little while it is below y",
            changed_relu(lambda right, w2: [-right[0], -right[1]]),
        ),
        Mistake(
            "relu-two-missing",
            "both gradients are half of what they should be: the square's exponent was lost",
            "the derivative of (p - y) squared",
            changed_relu(lambda right, w2: [right[0] / 2, right[1] / 2]),
        ),
        Mistake(
            "loss-slope-missing",
            "the slope of the square is missing: these are the gradients of p",
            "the last edge of the graph, from p to L",
            given(
                {RELU_GRADIENTS: lambda **numbers: relu_gradients(**{**numbers, "y": relu_values(**numbers)[1] - 0.5})}
            ),
        ),
        Mistake(
            "weights-exchanged",
            "the gradients of w1 and w2 are in the wrong order",
            "the order in which the question asks for them",
            changed_relu(lambda right, w2: right[::-1]),
        ),
        Mistake(
            "second-weight-missing",
            "the gradient of w1 does not pass through w2",
            "every edge on the way from L back to w1",
            changed_relu(lambda right, w2: [right[0] / (w2 or 1.0), right[1]]),
        ),
        Mistake(
            "gates-ignored",
            "a gradient came through a relu whose input is negative: that gate is closed",
            "the slope of relu to the left of zero, at both gates",
            gates(first=always_open, second=always_open),
        ),
        Mistake(
            "second-gate-ignored",
            "a gradient came through the second relu although its input is negative",
            "the slope of the relu between w2·h and p",
            gates(second=always_open),
            also=(first_past_the_second_gate,),
        ),
        Mistake(
            "gate-of-the-weight",
            "whether the first gate is open was decided by w1, not by w1·x",
            "the input of the first relu, when w1 and x are both negative",
            given({RELU_GRADIENTS: lambda w1, **n: relu_gradients(w1, **n, first=lambda z: step(w1))}),
        ),
        Mistake(
            "passes-at-the-kink",
            "a gradient came through a relu whose input is exactly 0, where its slope is 0",
            "the comparison that decides whether a gate is open",
            gates(first=lambda z: step(z, 1.0), second=lambda z: step(z, 1.0)),
            also=(gates(second=lambda z: step(z, 1.0)),),
        ),
        Mistake(
            "half-at-the-kink",
            "half of a gradient came through a relu whose input is exactly 0, where its slope is 0",
            "the slope of relu at 0 in the question; differences from both sides give the mean of the two slopes",
            gates(first=lambda z: step(z, 1.0), second=lambda z: step(z, 0.5)),
            also=(gates(first=lambda z: step(z, 0.5), second=lambda z: step(z, 0.5)),),
        ),
    ),
    visible=(
        visible("the lecture's numbers", w=3.0, b=1.0, w1=0.5, w2=0.5, x=2.0, y=1.0),
        visible("both gates open, x negative, p above y", w=1.0, b=-3.0, w1=-1.5, w2=2.0, x=-2.0, y=4.0),
        visible("the second gate closed", w=-1.0, b=5.0, w1=1.5, w2=-2.0, x=4.0, y=3.0),
        visible("the first gate closed", w=2.0, b=0.5, w1=-1.0, w2=3.0, x=1.0, y=2.0),
        visible("both gates closed", w=-2.0, b=-1.0, w1=-1.0, w2=-3.0, x=2.0, y=-1.0),
        visible("the first gate at 0", w=0.5, b=0.0, w1=0.0, w2=3.0, x=2.0, y=2.0),
        visible("x is 0", w=2.0, b=3.0, w1=1.0, w2=3.0, x=0.0, y=2.0),
        visible("the second gate at 0", w=0.0, b=2.0, w1=2.0, w2=0.0, x=1.0, y=3.0),
    ),
    draw=draw,
    domain=domain,
)
