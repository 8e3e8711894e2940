"""03a-graph: values and gradients of (w·x + b)² and of the two-layer relu graph, for any numbers.

The reference is written without the chain rule: the polynomial multiplied out, and the relu graph case by case.
Who lets autograd compute the numbers gets the same ones; that is allowed, and cannot be seen from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03a-graph"
PARTS = (("square values", 1.0), ("square gradients", 1.0), ("relu values", 1.0), ("relu gradients", 1.0))
TOLERANCE = 1e-5  # float32 is right too

Pairs = list[tuple[HiddenCase, Observation]]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two cases of each kind: both gates open, the first closed, the second closed."""
    cases = []
    for kind in ("both gates open", "the first gate closed", "the second gate closed") * 2:
        sign = rng.choice([-1.0, 1.0])
        x = sign * rng.uniform(1.0, 2.5)
        w1 = sign * rng.uniform(0.5, 2.0) * (-1 if kind == "the first gate closed" else 1)
        w2 = rng.uniform(0.5, 2.0) * (-1 if kind == "the second gate closed" else 1)
        p = max(0.0, w2 * max(0.0, w1 * x))
        numbers = {
            "w": rng.uniform(0.5, 3.0) * rng.choice([-1.0, 1.0]),
            "b": rng.uniform(0.5, 3.0) * rng.choice([-1.0, 1.0]),
            "w1": w1,
            "w2": w2,
            "x": x,
            "y": p + rng.uniform(0.5, 2.0) * rng.choice([-1.0, 1.0]),
        }
        cases.append(HiddenCase(kind, {name: float(number) for name, number in numbers.items()}))
    return [cases[index] for index in rng.permutation(len(cases))]


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """A point for the values and one for the gradients of each graph; each needs all cases."""
    pairs = list(zip(cases, observations, strict=True))
    parts = tuple(
        grade_part(name, points, pairs, _reader(*name.split()), _RIGHT[name], TOLERANCE) for name, points in PARTS
    )
    misconception = None
    for part in parts:
        if part.points < part.maximum and misconception is None:
            misconception = _mistake(part.name, pairs)
    return Verdict(ID, parts, misconception=misconception)


def _mistake(name: str, pairs: Pairs) -> str | None:
    read = _reader(*name.split())
    found = [(case, read(seen)[0]) for case, seen in pairs]
    return first_match(_MISTAKES[name].items(), found, TOLERANCE)


def _reader(part: str, field: str) -> Callable[[Observation], tuple[Any, str]]:
    def read(observation: Observation) -> tuple[Any, str]:
        return read_field(observation, part, field)

    return read


def _numbers(case: HiddenCase, *names: str) -> tuple[float, ...]:
    return tuple(float(case.inputs[name]) for name in names)


def square_values(case: HiddenCase) -> list[float]:
    """u, v and L of L = (w·x + b)²."""
    w, x, b = _numbers(case, "w", "x", "b")
    return [w * x, w * x + b, w * w * x * x + 2 * w * x * b + b * b]


def square_gradients(case: HiddenCase) -> list[float]:
    """The derivatives of w²x² + 2wxb + b² towards w, x and b."""
    w, x, b = _numbers(case, "w", "x", "b")
    return [2 * w * x * x + 2 * x * b, 2 * w * w * x + 2 * w * b, 2 * w * x + 2 * b]


def relu_values(case: HiddenCase) -> list[float]:
    """h, p and L of L = (relu(w2·relu(w1·x)) - y)²."""
    w1, w2, x, y = _numbers(case, "w1", "w2", "x", "y")
    h = max(0.0, w1 * x)
    p = max(0.0, w2 * h)
    return [h, p, p * p - 2 * p * y + y * y]


def relu_gradients(case: HiddenCase) -> list[float]:
    """Towards w1 and w2: of w1²w2²x² - 2·w1·w2·x·y + y² with both gates open, else nothing."""
    w1, w2, x, y = _numbers(case, "w1", "w2", "x", "y")
    if w1 * x <= 0 or w2 <= 0:
        return [0.0, 0.0]
    return [2 * w1 * w2**2 * x**2 - 2 * w2 * x * y, 2 * w1**2 * w2 * x**2 - 2 * w1 * x * y]


def _scaled(gradients: Callable[[HiddenCase], list[float]], factor: float) -> Callable[[HiddenCase], list[float]]:
    return lambda case: [factor * gradient for gradient in gradients(case)]


def _inner(case: HiddenCase) -> list[float]:
    w, x = _numbers(case, "w", "x")
    return [x, w, 1.0]


def _stopped_at_v(case: HiddenCase) -> list[float]:
    return [square_gradients(case)[2]] * 3


def _exchanged(case: HiddenCase) -> list[float]:
    towards_w, towards_x, towards_b = square_gradients(case)
    return [towards_x, towards_w, towards_b]


def _at_loss(case: HiddenCase) -> list[float]:
    return [2 * square_values(case)[2] * slope for slope in _inner(case)]


def _without_relu(case: HiddenCase) -> list[float]:
    w1, w2, x, y = _numbers(case, "w1", "w2", "x", "y")
    return [w1 * x, w2 * w1 * x, (w2 * w1 * x - y) ** 2]


def _through_w2(case: HiddenCase) -> list[float]:
    towards_w1, towards_w2 = relu_gradients(case)
    return [towards_w1 / case.inputs["w2"], towards_w2]


def _gates_ignored(case: HiddenCase) -> list[float]:
    """The walk back with every slope of relu 1; the values are those with relu."""
    w2, x, y = _numbers(case, "w2", "x", "y")
    h, p, _ = relu_values(case)
    return [2 * (p - y) * w2 * x, 2 * (p - y) * h]


def _linear(case: HiddenCase) -> list[float]:
    """No relu at all, forwards or back."""
    w1, w2, x, y = _numbers(case, "w1", "w2", "x", "y")
    return [2 * (w2 * w1 * x - y) * w2 * x, 2 * (w2 * w1 * x - y) * w1 * x]


_RIGHT = {
    "square values": square_values,
    "square gradients": square_gradients,
    "relu values": relu_values,
    "relu gradients": relu_gradients,
}
_MISTAKES: dict[str, dict[str, Callable[[HiddenCase], list[float]]]] = {
    "square values": {"same-for-all-inputs": lambda _: [6.0, 7.0, 49.0]},
    "square gradients": {
        "same-for-all-inputs": lambda _: [28.0, 42.0, 14.0],
        "outer-slope-missing": _inner,
        "inner-slope-missing": _stopped_at_v,
        "factors-swapped": _exchanged,
        "two-missing": _scaled(square_gradients, 0.5),
        "slope-of-loss": _at_loss,
    },
    "relu values": {"same-for-all-inputs": lambda _: [1.0, 0.5, 0.25], "relu-left-out": _without_relu},
    "relu gradients": {
        "same-for-all-inputs": lambda _: [-1.0, -1.0],
        "sign-turned": _scaled(relu_gradients, -1.0),
        "second-weight-missing": _through_w2,
        "gates-ignored": _gates_ignored,
        "relu-left-out": _linear,
    },
}
