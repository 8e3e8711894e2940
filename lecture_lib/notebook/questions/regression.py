"""03c-regression: Huber loss and its gradient with respect to the predictions."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion


def _arguments(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, float]:
    return torch.tensor(inputs["predictions"]), torch.tensor(inputs["targets"]), inputs["delta"]


def _loss(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": torch.as_tensor(functions["huber_loss"](*_arguments(inputs))).double()}


def _gradient(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": torch.as_tensor(functions["huber_gradient"](*_arguments(inputs))).double()}


QUESTION = PublicQuestion(
    id="03c-regression",
    title="Huber loss and its gradient",
    functions=("huber_loss", "huber_gradient"),
    parts={"loss": _loss, "gradient": _gradient},
    repeatable=("huber_loss", "huber_gradient"),
    ready_made=(
        "torch.nn.functional.huber_loss",
        "torch.nn.functional.smooth_l1_loss",
        "torch.autograd.grad",
        "torch.autograd.backward",
    ),
    relative_tolerance=1e-5,  # float32 is right too
)
