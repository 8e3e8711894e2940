"""03a-clip: clip by the global norm, and measure how clipping each parameter by itself turns the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, PublicQuestion


def _gradients(inputs: Inputs) -> list[torch.Tensor]:
    """A matrix lies in memory column by column, like the gradient of a weight that was used transposed."""
    return [torch.from_numpy(np.array(gradient, order="F")) for gradient in inputs["gradients"]]


def _clip(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    clipped, norm = functions["clip_by_global_norm"](_gradients(inputs), inputs["max_norm"])
    return {"clipped": [torch.as_tensor(tensor).double() for tensor in clipped], "norm": norm}


def _cosine(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"cosine": functions["per_parameter_cosine"](_gradients(inputs), inputs["max_norm"])}


QUESTION = PublicQuestion(
    id="03a-clip",
    title="clip by the global norm",
    functions=("clip_by_global_norm", "per_parameter_cosine"),
    may_overwrite=("clip_by_global_norm", "per_parameter_cosine"),
    parts={"clipping": _clip, "cosine": _cosine},
    ready_made=("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"),
    relative_tolerance=1e-5,  # PyTorch divides by norm + 1e-6; both forms are right
)
