"""03d-nan: values and gradients of four losses at the places where they break, and the scales of an FP16 run."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _graded(function: str, arguments: tuple[str, ...], *constants: str) -> Any:
    """The value of a function, and the gradients of its weighted sum with respect to the arguments."""

    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        leaves = [torch.tensor(inputs[name]).requires_grad_() for name in arguments]
        value = functions[function](*leaves, *[torch.tensor(inputs[name]) for name in constants])
        value, slopes = torch.as_tensor(value), torch.tensor(inputs["slopes"])
        weighted = (value * (slopes if value.ndim else slopes[0])).sum()
        # A constant is right where nothing is kept; elsewhere its gradient of 0 is wrong.
        gradients = torch.autograd.grad(weighted, leaves, allow_unused=True) if weighted.requires_grad else [None] * 2
        return {
            "value": in_float64(value.detach()),
            "gradient": [
                in_float64(torch.zeros_like(leaf) if gradient is None else gradient)
                for leaf, gradient in zip(leaves, gradients, strict=False)
            ],
        }

    return observe


def _scales(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    settings = [inputs[name] for name in ("scale", "growth", "backoff", "interval")]
    used = functions["loss_scales"](list(map(bool, inputs["finite"])), *settings)
    return {"value": [float(scale) for scale in used]}


QUESTION = PublicQuestion(
    id="03d-nan",
    title="losses that stay finite",
    functions=("distances", "masked_log_mean", "entropy", "cosine_similarity", "loss_scales"),
    repeatable=("distances", "masked_log_mean", "entropy", "cosine_similarity", "loss_scales"),
    parts={
        "distance": _graded("distances", ("a", "b")),
        "masked": _graded("masked_log_mean", ("x",), "mask"),
        "entropy": _graded("entropy", ("logits",)),
        "cosine": _graded("cosine_similarity", ("a", "b")),
        "scales": _scales,
    },
    ready_made=(
        "torch.nn.functional.cosine_similarity",
        "torch.cosine_similarity",
        "torch.nn.functional.pairwise_distance",
        "torch.pairwise_distance",
        "torch.distributions.Categorical",
        "torch.distributions.categorical.Categorical",
    ),
    relative_tolerance=1e-5,  # 1e-12 under the root of a distance is too little to be seen
)
