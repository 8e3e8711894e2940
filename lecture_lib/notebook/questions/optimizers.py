"""03c-optimizers: the steps of SGD, RMSprop, Adam and AdamW, with PyTorch's conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion

Part = Callable[[Functions, Inputs], dict[str, Any]]


def _path(function: str, arguments: tuple[str, ...], **settings: Any) -> Part:
    """Call a function with the parameter, the gradients, the rates and some settings of the case."""

    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        values = [inputs[name] for name in arguments]
        path = functions[function](
            torch.tensor(inputs["parameter"]),
            [torch.tensor(gradient, dtype=torch.float64) for gradient in inputs["gradients"]],
            list(inputs["rates"]),
            *[tuple(value) if isinstance(value, list) else value for value in values],
            **settings,
        )
        return {"path": [torch.as_tensor(parameter).double() for parameter in path]}

    return observe


_SGD = ("momentum",)
_ADAM = ("betas", "eps", "weight_decay")


def _sgd(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return _path("sgd", _SGD, dampening=inputs["dampening"], nesterov=False, weight_decay=inputs["weight_decay"])(
        functions, inputs
    )


def _nesterov(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return _path("sgd", _SGD, dampening=0.0, nesterov=True, weight_decay=inputs["weight_decay"])(functions, inputs)


_CLASSES = (("sgd", "SGD"), ("rmsprop", "RMSprop"), ("adam", "Adam"), ("adamw", "AdamW"))

QUESTION = PublicQuestion(
    id="03c-optimizers",
    title="the steps of four optimizers",
    functions=("sgd", "rmsprop", "adam"),
    may_overwrite=("sgd", "rmsprop", "adam"),
    parts={
        "sgd": _sgd,
        "nesterov": _nesterov,
        "rmsprop": _path("rmsprop", ("alpha", "eps")),
        "adam": _path("adam", _ADAM, decoupled=False),
        "adamw": _path("adam", _ADAM, decoupled=True),
    },
    ready_made=tuple(
        f"torch.optim.{name}"
        for module, class_name in _CLASSES
        for name in (class_name, f"{module}.{class_name}", f"{module}.{module}")
    ),
    relative_tolerance=1e-6,
)
