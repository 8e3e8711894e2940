"""03a-backward: the rules of relu and of a linear layer on shapes never shown, at the kink, and together on the tape.

The reference sums the definition entry by entry (einsum with named axes); no tape, no autograd, no transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_fields

ID = "03a-backward"
PARTS = (("relu", 2.0), ("matmul", 3.0), ("bias", 2.0), ("two layers", 1.0))
TOLERANCE = 1e-9
# Examples, inputs, hidden values, outputs. The hidden values are the first layer's outputs.
_SIZES = {
    "one example": (1, 4, 3, 2),
    "several examples": (5, 3, 4, 2),
    "one input": (6, 1, 3, 2),
    "one output": (4, 5, 1, 3),
}
_RELU_SHAPES = {"one example": (1, 6), "several examples": (5, 4), "one input": (7,), "one output": (2, 3, 4)}

Gradients = dict[str, np.ndarray]
Pairs = list[tuple[HiddenCase, Observation]]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """A case of each kind; every relu has inputs that are exactly 0, of both signs, and gradients of both signs."""
    return [HiddenCase(kind, _inputs(rng, _RELU_SHAPES[kind], *sizes)) for kind, sizes in _SIZES.items()]


def _inputs(
    rng: np.random.Generator, relu_shape: tuple[int, ...], examples: int, inputs: int, hidden: int, outputs: int
) -> dict[str, Any]:
    def away(*shape: int) -> np.ndarray:
        # Not near 0, where a rule that forgets a factor could be right by accident.
        return rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)

    z = away(*relu_shape)
    # The kink twice, and an open and a closed gate with gradients of either sign.
    places = rng.choice(z.size, 6, replace=False)
    z.flat[places] = [0.0, -0.0, 1.3, 0.7, -0.4, -1.1]
    relu_gradient = away(*relu_shape)
    relu_gradient.flat[places] = np.abs(relu_gradient.flat[places]) * [1, 1, 1, -1, 1, -1]
    x, bias = away(examples, inputs), away(hidden)
    if examples > 1:
        x[-1], bias[0] = 0.0, 0.0  # a hidden value of exactly 0
    return {
        "z": z,
        "relu_gradient": relu_gradient,
        "x": x,
        "weight": away(inputs, hidden),
        "bias": bias,
        "linear_gradient": away(examples, hidden),
        "weight2": away(hidden, outputs),
        "bias2": away(outputs),
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part when it is right on every shape."""
    pairs = list(zip(cases, observations, strict=True))
    parts = tuple(grade_part(name, points, pairs, _READ[name], _RIGHT[name], TOLERANCE) for name, points in PARTS)
    misconception = None
    for part in parts:
        if part.points < part.maximum and misconception is None:
            misconception = _mistake(part.name, pairs)
    return Verdict(ID, parts, misconception=misconception)


def _mistake(part: str, pairs: Pairs) -> str | None:
    # With one example a sum, a mean and a single row are the same.
    chosen = pairs if part == "relu" else [pair for pair in pairs if pair[0].kind != "one example"]
    found = [(case, _READ[part](seen)[0]) for case, seen in chosen]
    return first_match(_MISTAKES.get(part, {}).items(), found, TOLERANCE)


def _reader(part: str, *names: str) -> Callable[[Observation], tuple[Any, str]]:
    def read(observation: Observation) -> tuple[Any, str]:
        return read_fields(observation, part, *names)

    return read


def relu_gradient(case: HiddenCase) -> Gradients:
    """The incoming gradient where the input is positive, else 0."""
    return {"x": np.where(case.inputs["z"] > 0, case.inputs["relu_gradient"], 0.0)}


def linear_gradients(x: np.ndarray, weight: np.ndarray, gradient: np.ndarray) -> Gradients:
    """Of x @ weight + bias: [examples, inputs], [inputs, outputs] and [outputs]."""
    return {
        "x": np.einsum("no,io->ni", gradient, weight),
        "weight": np.einsum("ni,no->io", x, gradient),
        "bias": np.einsum("no->o", gradient),
    }


def network_gradients(case: HiddenCase) -> Gradients:
    """Of the sum of the squared results of two layers with a relu between."""
    inputs = case.inputs
    z = inputs["x"] @ inputs["weight"] + inputs["bias"]
    h = np.where(z > 0, z, 0.0)
    result = h @ inputs["weight2"] + inputs["bias2"]
    second = linear_gradients(h, inputs["weight2"], 2 * result)
    first = linear_gradients(inputs["x"], inputs["weight"], np.where(z > 0, second["x"], 0.0))
    return {
        "weight": first["weight"],
        "bias": first["bias"],
        "weight2": second["weight"],
        "bias2": second["bias"],
    }


def _linear(case: HiddenCase) -> Gradients:
    return linear_gradients(case.inputs["x"], case.inputs["weight"], case.inputs["linear_gradient"])


def _matmul(case: HiddenCase) -> Gradients:
    return {name: _linear(case)[name] for name in ("x", "weight")}


def _relu_with(rule: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[HiddenCase], Gradients]:
    return lambda case: {"x": rule(case.inputs["z"], case.inputs["relu_gradient"])}


def _bias_with(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[[HiddenCase], Gradients]:
    return lambda case: {"bias": rule(case.inputs["linear_gradient"])}


def _weight_with(rule: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[HiddenCase], Gradients]:
    return lambda case: {**_matmul(case), "weight": rule(_linear(case)["weight"], len(case.inputs["x"]))}


def _ones_upstream(case: HiddenCase) -> Gradients:
    ones = np.ones_like(case.inputs["linear_gradient"])
    found = linear_gradients(case.inputs["x"], case.inputs["weight"], ones)
    return {name: found[name] for name in ("x", "weight")}


_READ = {
    "relu": _reader("relu", "x"),
    "matmul": _reader("linear", "x", "weight"),
    "bias": _reader("linear", "bias"),
    "two layers": _reader("network", "weight", "bias", "weight2", "bias2"),
}
_RIGHT: dict[str, Callable[[HiddenCase], Gradients]] = {
    "relu": relu_gradient,
    "matmul": _matmul,
    "bias": lambda case: {"bias": _linear(case)["bias"]},
    "two layers": network_gradients,
}
_MISTAKES: dict[str, dict[str, Callable[[HiddenCase], Gradients]]] = {
    "relu": {
        "passes-at-the-kink": _relu_with(lambda z, gradient: np.where(z >= 0, gradient, 0.0)),
        "gate-of-the-gradient": _relu_with(lambda z, gradient: np.maximum(gradient, 0.0)),
        "gate-missing": _relu_with(lambda z, gradient: gradient),
        "upstream-missing": _relu_with(lambda z, gradient: np.where(z > 0, 1.0, 0.0)),
        "no-gradient": _relu_with(lambda z, gradient: np.zeros_like(z)),
    },
    "matmul": {
        "upstream-missing": _ones_upstream,
        "averaged": _weight_with(lambda weight, examples: weight / examples),
        "weight-transposed": _weight_with(lambda weight, _: weight.T),
    },
    "bias": {
        "bias-not-summed": _bias_with(lambda gradient: gradient),
        "bias-over-outputs": _bias_with(lambda gradient: gradient.sum(axis=1)),
        "bias-of-one-example": _bias_with(lambda gradient: gradient[0]),
        "averaged": _bias_with(lambda gradient: gradient.mean(axis=0)),
    },
}
