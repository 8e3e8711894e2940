"""03c-embedding: KL divergence of two classifiers, triplet loss, and InfoNCE with items that occur more than once."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _observer(function: str, *names: str) -> Any:
    def observed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        arguments = [torch.tensor(inputs[name]) for name in names[:-1]]
        return {"value": in_float64(functions[function](*arguments, inputs[names[-1]]))}

    return observed


QUESTION = PublicQuestion(
    id="03c-embedding",
    title="KL divergence, triplet loss, InfoNCE",
    functions=("kl_loss", "triplet_loss", "info_nce_loss"),
    parts={
        "kl": _observer("kl_loss", "student_logits", "teacher_logits", "softness"),
        "triplet": _observer("triplet_loss", "anchors", "positives", "negatives", "margin"),
        "info_nce": _observer("info_nce_loss", "queries", "keys", "items", "temperature"),
    },
    repeatable=("kl_loss", "triplet_loss", "info_nce_loss"),
    ready_made=(
        "torch.nn.functional.triplet_margin_loss",
        "torch.nn.functional.triplet_margin_with_distance_loss",
        "lecture_lib.training.info_nce",
        "lecture_lib.training.losses.info_nce",
    ),
    relative_tolerance=3e-5,  # PyTorch's distances add 1e-6 to each difference; float32 is right too
)
