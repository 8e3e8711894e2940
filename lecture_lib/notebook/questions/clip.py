"""03a-clip: clip by the global norm, and measure how clipping each parameter by itself turns the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion


def _gradients(inputs: Inputs) -> list[torch.Tensor]:
    return [torch.tensor(gradient) for gradient in inputs["gradients"]]


def _clip(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    clipped, norm = functions["clip_by_global_norm"](_gradients(inputs), inputs["max_norm"])
    return {"clipped": list(clipped), "norm": norm}


def _cosine(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"cosine": functions["per_parameter_cosine"](_gradients(inputs), inputs["max_norm"])}


QUESTION = PublicQuestion(
    id="03a-clip",
    title="clip by the global norm",
    functions=("clip_by_global_norm", "per_parameter_cosine"),
    parts={"clipping": _clip, "cosine": _cosine},
    ready_made=("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"),
    relative_tolerance=1e-5,  # PyTorch divides by norm + 1e-6; both forms are right
    cases=(
        PublicCase(
            name="g = [3], [4], max_norm 1",
            inputs={"gradients": [np.array([3.0]), np.array([4.0])], "max_norm": 1.0},
            expected={
                "clipping": {"clipped": [np.array([0.6]), np.array([0.8])], "norm": 5.0},
                "cosine": {"cosine": 7 / (5 * 2**0.5)},
            },
            mistakes={
                "never-clipped": {"clipping": {"clipped": [np.array([3.0]), np.array([4.0])]}},
                "norm-after": {"clipping": {"clipped": [np.array([0.6]), np.array([0.8])], "norm": 1.0}},
                "sum-of-norms": {"clipping": {"norm": 7.0}},
                "squared-norm": {"clipping": {"norm": 25.0}},
                "cosine-of-global": {"cosine": {"cosine": 1.0}},
                "dot-product": {"cosine": {"cosine": 7.0}},
            },
        ),
        PublicCase(
            name="g = [3, 4], [12], max_norm 1",
            inputs={"gradients": [np.array([3.0, 4.0]), np.array([12.0])], "max_norm": 1.0},
            expected={
                "clipping": {"clipped": [np.array([3.0, 4.0]) / 13, np.array([12.0]) / 13], "norm": 13.0},
                "cosine": {"cosine": 17 / (13 * 2**0.5)},
            },
            mistakes={
                "per-parameter": {"clipping": {"clipped": [np.array([0.6, 0.8]), np.array([1.0])]}},
                "value-clipping": {"clipping": {"clipped": [np.array([1.0, 1.0]), np.array([1.0])]}},
                "largest-norm": {"clipping": {"norm": 12.0}},
                "norm-after": {"clipping": {"norm": 1.0}},
                "sum-of-norms": {"clipping": {"norm": 17.0}},
                "squared-norm": {"clipping": {"norm": 169.0}},
                "cosine-of-global": {"cosine": {"cosine": 1.0}},
                "dot-product": {"cosine": {"cosine": 17.0}},
            },
        ),
        PublicCase(
            name="below the threshold: g = [0.3], [0.4], max_norm 1",
            inputs={"gradients": [np.array([0.3]), np.array([0.4])], "max_norm": 1.0},
            expected={
                "clipping": {"clipped": [np.array([0.3]), np.array([0.4])], "norm": 0.5},
                "cosine": {"cosine": 1.0},
            },
            mistakes={
                "always-rescaled": {"clipping": {"clipped": [np.array([0.6]), np.array([0.8])]}},
                "dot-product": {"cosine": {"cosine": 0.25}},
            },
        ),
    ),
    misconceptions={
        "per-parameter": Misconception(
            "each tensor was clipped by its own norm, so the direction of the whole gradient changed",
            "how many norms you compute: the gradient of the model is one long vector",
        ),
        "never-clipped": Misconception(
            "no gradient was clipped: what went in came out, also above the threshold",
            "the norm of the gradients that you return, when max_norm is smaller than theirs",
        ),
        "always-rescaled": Misconception(
            "a gradient below the threshold was stretched up to it",
            "what should happen when the norm is already smaller than max_norm",
        ),
        "norm-after": Misconception(
            "the norm returned is the one after clipping, which is always max_norm or less and tells nothing",
            "when the norm is computed, and which one you would want to plot",
        ),
        "sum-of-norms": Misconception(
            "the norms of the tensors were added; norms do not add, their squares do",
            "the norm of [3, 4]: it is 5, not 7",
        ),
        "squared-norm": Misconception(
            "the sum of squares was used without its square root",
            "the last step from the sum of squares to the norm",
        ),
        "largest-norm": Misconception(
            "the largest tensor's norm was taken for the norm of all",
            "what the other tensors add to the length of the whole vector",
        ),
        "value-clipping": Misconception(
            "each entry was cut to ±max_norm: that is clipping by value, and it turns the gradient",
            "whether all entries are multiplied by the same number",
        ),
        "cosine-of-global": Misconception(
            "the cosine is 1 everywhere: global clipping keeps the direction, and that is not what was asked for",
            "which clipping the second function measures",
        ),
        "dot-product": Misconception(
            "the dot product was not divided by the two lengths",
            "the range of a cosine: between -1 and 1",
        ),
    },
)
