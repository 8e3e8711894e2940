"""03d-dropout: dropout with given random numbers, and its backward pass."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _applied(function: str, argument: str) -> Any:
    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        values, uniform = torch.tensor(inputs[argument]), torch.tensor(inputs["uniform"])
        return {"value": in_float64(functions[function](values, inputs["p"], uniform, bool(inputs["training"])))}

    return observe


QUESTION = PublicQuestion(
    id="03d-dropout",
    title="dropout and its gradient",
    functions=("dropout", "dropout_gradient"),
    may_overwrite=("dropout", "dropout_gradient"),
    parts={"output": _applied("dropout", "x"), "gradient": _applied("dropout_gradient", "gradient")},
    ready_made=("torch.nn.functional.dropout", "torch.dropout", "torch.nn.Dropout", "torch.native_dropout"),
)
