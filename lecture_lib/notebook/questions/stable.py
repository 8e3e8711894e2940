"""03c-stable: cross-entropy and binary cross-entropy from logits of any size, with weights and label smoothing."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _cross_entropy(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    tensors = [torch.tensor(inputs[name]) for name in ("logits", "labels", "weight")]
    return {"value": in_float64(functions["cross_entropy"](*tensors, inputs["label_smoothing"]))}


def _binary(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    tensors = [torch.tensor(inputs[name]) for name in ("binary_logits", "targets", "pos_weight")]
    return {"value": in_float64(functions["binary_cross_entropy"](*tensors))}


QUESTION = PublicQuestion(
    id="03c-stable",
    title="two classification losses from logits",
    functions=("cross_entropy", "binary_cross_entropy"),
    parts={"classes": _cross_entropy, "binary": _binary},
    repeatable=("cross_entropy", "binary_cross_entropy"),
    ready_made=(
        "torch.nn.functional.cross_entropy",
        "torch.nn.functional.nll_loss",
        "torch.nn.functional.binary_cross_entropy_with_logits",
        "torch.nn.functional.multilabel_soft_margin_loss",
        "torch.nn.functional.log_softmax",
        "torch.nn.functional.logsigmoid",
        "torch.nn.functional.softplus",
        "torch.log_softmax",
        "torch.logsumexp",
        "torch.logaddexp",
    ),
    relative_tolerance=1e-5,  # float32 is right too
)
