"""03c-focal: balanced class weights, and the binary focal loss with its gradient with respect to the logits."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _weights(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": in_float64(functions["balanced_weights"](torch.tensor(inputs["table"]), inputs["classes"]))}


def _focal(function: str) -> Any:
    def observed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        logits, labels = torch.tensor(inputs["logits"]), torch.tensor(inputs["labels"])
        return {"value": in_float64(functions[function](logits, labels, inputs["gamma"], inputs["alpha"]))}

    return observed


QUESTION = PublicQuestion(
    id="03c-focal",
    title="class weights and focal loss",
    functions=("balanced_weights", "binary_focal_loss", "binary_focal_gradient"),
    parts={"weights": _weights, "loss": _focal("binary_focal_loss"), "gradient": _focal("binary_focal_gradient")},
    repeatable=("balanced_weights", "binary_focal_loss", "binary_focal_gradient"),
    ready_made=(
        "lecture_lib.training.focal_loss",
        "lecture_lib.training.losses.focal_loss",
        "torch.autograd.grad",
        "torch.autograd.backward",
    ),
    relative_tolerance=1e-5,  # float32 is right too
)
