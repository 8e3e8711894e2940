"""03a-backward: the backward rules of relu and of a linear layer, alone and on the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tape import Tensor, record
from ..question import Functions, Inputs, PublicQuestion

Array = np.ndarray


def _shared(array: Array) -> Array:
    """As on the tape: several rules get the same array, so none may write into it, nor lift its write protection."""
    # An array over immutable bytes: its write flag cannot be set again, as that of a copy could.
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _relu(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"x": functions["relu_rule"](_shared(inputs["z"]), _shared(inputs["relu_gradient"]))}


def _linear(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    arrays = [_shared(inputs[name]) for name in ("x", "weight", "bias", "linear_gradient")]
    x, weight, bias = functions["linear_rule"](*arrays)
    return {"x": x, "weight": weight, "bias": bias}


def _network(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Two linear layers with a relu between, recorded with the student's rules and differentiated by the tape."""
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


QUESTION = PublicQuestion(
    id="03a-backward",
    title="two backward rules for the tape",
    functions=("relu_rule", "linear_rule"),
    parts={"relu": _relu, "linear": _linear, "network": _network},
    repeatable=("relu_rule", "linear_rule"),
    ready_made=(
        "lecture_lib.tape.relu",
        "lecture_lib.tape.linear",
        "lecture_lib.tape.matmul",
        "torch.autograd.grad",
        "torch.autograd.backward",
    ),
    relative_tolerance=1e-9,
)
