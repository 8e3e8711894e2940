"""03d-gradients: norms of gradients and updates, a clipping threshold, and clipping by it."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion


def _tensors(values: list[Any]) -> list[torch.Tensor | None]:
    return [None if value is None else torch.tensor(value, dtype=torch.float64) for value in values]


def _norm(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": float(functions["global_norm"](_tensors(inputs["gradients"])))}


def _ratios(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    before, after = _tensors(inputs["before"]), _tensors(inputs["after"])
    return {"value": [float(ratio) for ratio in functions["update_ratios"](before, after)]}


def _threshold(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": float(functions["clip_threshold"](list(map(float, inputs["norms"])), inputs["percent"]))}


def _clip(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    clipped, norm = functions["clip_gradients"](_tensors(inputs["gradients"]), inputs["limit"])
    return {
        "values": [None if gradient is None else torch.as_tensor(gradient).double() for gradient in clipped],
        "norm": float(norm),
    }


QUESTION = PublicQuestion(
    id="03d-gradients",
    title="gradients watched",
    functions=("global_norm", "update_ratios", "clip_threshold", "clip_gradients"),
    repeatable=("global_norm", "update_ratios", "clip_threshold"),
    may_overwrite=("clip_gradients",),
    parts={"norm": _norm, "ratios": _ratios, "threshold": _threshold, "clip": _clip},
    ready_made=(
        "torch.nn.utils.clip_grad_norm_",
        "torch.nn.utils.get_total_norm",
        "torch.nn.utils.clip_grads_with_norm_",
        "lecture_lib.training.clip_threshold",
        "lecture_lib.training.clip_by_global_norm",
    ),
    relative_tolerance=1e-5,  # PyTorch adds 1e-6 to the norm
)
