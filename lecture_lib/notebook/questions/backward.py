"""03a-backward: the backward rules of relu and of a linear layer, alone and on the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tape import Tensor, record
from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

Array = np.ndarray


def _shared(array: Array) -> Array:
    """As on the tape: several rules get the same array, so none may write into it."""
    array = array.copy()
    array.setflags(write=False)
    return array


def _relu(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"x": functions["relu_rule"](_shared(inputs["z"]), _shared(inputs["relu_gradient"]))}


def _linear(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    arrays = [_shared(inputs[name]) for name in ("x", "weight", "bias", "linear_gradient")]
    x, weight, bias = functions["linear_rule"](*arrays)
    return {"x": x, "weight": weight, "bias": bias}


def _network(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Two linear layers with a relu between, recorded with the student's rules and walked back by the tape."""
    names = ("weight", "bias", "weight2", "bias2")
    parameters = [Tensor(inputs[name], requires_grad=True) for name in names]
    hidden = _recorded_linear(functions["linear_rule"], Tensor(inputs["x"]), *parameters[:2])
    z, rule = hidden.data, functions["relu_rule"]
    active = record("relu", np.maximum(z, 0), (hidden, lambda gradient: rule(np.array(z), gradient)))
    result = _recorded_linear(functions["linear_rule"], active, *parameters[2:])
    (result * result).sum().backward()
    return {name: parameter.grad for name, parameter in zip(names, parameters, strict=True)}


def _recorded_linear(rule: Callable[..., Any], x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    arrays = [np.array(tensor.data) for tensor in (x, weight, bias)]

    def share(place: int) -> Callable[[Array], Array]:
        return lambda gradient: np.asarray(list(rule(*arrays, gradient))[place])

    value = arrays[0] @ arrays[1] + arrays[2]
    return record("linear", value, (x, share(0)), (weight, share(1)), (bias, share(2)))


def _array(*rows: Any) -> Array:
    return np.array(rows, dtype=np.float64)


# Three examples, two inputs, one output: no two lengths are the same.
_Z, _UPSTREAM = _array([2, -1, 0], [-3, 0, 4]), _array([5, 6, 7], [8, -9, -2])
_X, _WEIGHT, _BIAS, _GRADIENT = _array([1, 2], [3, 4], [5, 6]), _array([2], [-1]), _array(0.5), _array([1], [-2], [3])
_INPUTS = {
    "z": _Z,
    "relu_gradient": _UPSTREAM,
    "x": _X,
    "weight": _WEIGHT,
    "bias": _BIAS,
    "linear_gradient": _GRADIENT,
    "weight2": _array([1, -1]),
    "bias2": _array(0, 1),
}
# The hidden values are 0.5, 2.5 and 4.5, the results [h, 1 - h].
_NETWORK = {
    "weight": _array([104], [128]),
    "bias": _array(24),
    "weight2": _array([53.5, -38.5]),
    "bias2": _array(15, -9),
}
_ONE = {
    **_INPUTS,
    "z": _array(0, -1, 2, 3),
    "relu_gradient": _array(1, 1, -1, 0.5),
    "x": _array([2, -1]),
    "weight": _array([1, 0, 2], [1, 2, 1]),
    "bias": _array(-1, 0, 1),
    "linear_gradient": _array([1, -2, 3]),
    "weight2": _array([1], [1], [2]),
    "bias2": _array(1),
}
_ONE_NETWORK = {
    "weight": _array([0, 0, 72], [0, 0, -36]),
    "bias": _array(0, 0, 36),
    "weight2": _array([0], [0], [72]),
    "bias2": _array(18),
}


def _linear_case(x: Any, weight: Any, bias: Any) -> dict[str, Any]:
    return {"linear": {"x": x, "weight": weight, "bias": bias}}


QUESTION = PublicQuestion(
    id="03a-backward",
    title="two backward rules for the tape",
    functions=("relu_rule", "linear_rule"),
    parts={"relu": _relu, "linear": _linear, "network": _network},
    ready_made=(
        "lecture_lib.tape.relu",
        "lecture_lib.tape.linear",
        "lecture_lib.tape.matmul",
        "torch.autograd.grad",
        "torch.autograd.backward",
    ),
    relative_tolerance=1e-9,
    cases=(
        PublicCase(
            name="three examples, two inputs, one output",
            inputs=_INPUTS,
            expected={
                "relu": {"x": _array([5, 0, 0], [0, 0, -2])},
                **_linear_case(_array([2, -1], [-4, 2], [6, -3]), _array([10], [12]), _array(2)),
                "network": _NETWORK,
            },
            mistakes={
                "passes-at-the-kink": {"relu": {"x": _array([5, 0, 7], [0, -9, -2])}},
                "gate-of-the-gradient": {"relu": {"x": _array([5, 6, 7], [8, 0, 0])}},
                "gate-missing": {"relu": {"x": _UPSTREAM}},
                "upstream-missing": {
                    "relu": {"x": _array([1, 0, 0], [0, 0, 1])},
                    "linear": {"weight": _array([9], [12])},
                },
                "bias-not-summed": {"linear": {"bias": _GRADIENT}},
                "bias-over-outputs": {"linear": {"bias": _array(1, -2, 3)}},
                "bias-of-one-example": {"linear": {"bias": _array(1)}},
                "averaged": {"linear": {"bias": _array(2 / 3)}},
                "weight-transposed": {"linear": {"weight": _array([10, 12])}},
                "no-gradient": {"relu": {"x": 0 * _Z}},
            },
        ),
        PublicCase(
            name="one example, two inputs, three outputs",
            inputs=_ONE,
            expected={
                "relu": {"x": _array(0, 0, -1, 0.5)},
                **_linear_case(_array([7, 0]), _array([2, -4, 6], [-1, 2, -3]), _array(1, -2, 3)),
                "network": _ONE_NETWORK,
            },
            mistakes={
                "passes-at-the-kink": {"relu": {"x": _array(1, 0, -1, 0.5)}},
                "gate-of-the-gradient": {"relu": {"x": _array(1, 1, 0, 0.5)}},
                "gate-missing": {"relu": {"x": _array(1, 1, -1, 0.5)}},
                "upstream-missing": {
                    "relu": {"x": _array(0, 0, 1, 1)},
                    "linear": {"weight": _array([2, 2, 2], [-1, -1, -1])},
                },
                "bias-not-summed": {"linear": {"bias": _array([1, -2, 3])}},
                "bias-over-outputs": {"linear": {"bias": _array(2)}},
                "weight-transposed": {"linear": {"weight": _array([2, -1], [-4, 2], [6, -3])}},
                "no-gradient": {"relu": {"x": _array(0, 0, 0, 0)}},
            },
        ),
    ),
    misconceptions={
        "passes-at-the-kink": Misconception(
            "the gradient passes where the input is exactly 0; the tape and PyTorch pass nothing there",
            "the comparison that decides which entries are open, at 0",
        ),
        "gate-of-the-gradient": Misconception(
            "the relu was applied to the gradient; which gates are open was decided on the way forwards",
            "which of the two arguments the comparison looks at",
        ),
        "gate-missing": Misconception(
            "the gradient passes everywhere, also where relu gave 0",
            "the slope of relu to the left of 0",
        ),
        "upstream-missing": Misconception(
            "the incoming gradient is not used: this is right only when it is 1 everywhere",
            "what the local slope is multiplied by",
        ),
        "bias-not-summed": Misconception(
            "the bias got one gradient for each example; it was used once for each, and has one gradient in all",
            "the shape of the bias, and how often each of its entries was used",
        ),
        "bias-over-outputs": Misconception(
            "the bias's gradient was summed over the outputs; they stay apart, the examples do not",
            "which axis the bias was stretched along",
        ),
        "bias-of-one-example": Misconception(
            "the bias got the gradient of one example only",
            "what the other examples of the batch add",
        ),
        "averaged": Misconception(
            "a gradient was divided by the number of examples; that division belongs to the loss, if it has one",
            "whether anything in x @ weight + bias divides by the batch size",
        ),
        "weight-transposed": Misconception(
            "the weight's gradient is transposed: a gradient has the shape of what it is the gradient of",
            "the shapes [inputs, examples] and [examples, outputs], and what their product has",
        ),
        "no-gradient": Misconception(
            "no gradient passes anywhere",
            "an entry whose input is positive: what its result does to the loss, it does too",
        ),
    },
)
