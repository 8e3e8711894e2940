"""03a-accumulate: one epoch with K micro-batches to a step, equal to training on the big batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion


def _epoch(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    micro_batches = [(torch.tensor(x), torch.tensor(y)) for x, y in zip(inputs["x"], inputs["y"], strict=True)]
    model = nn.Linear(micro_batches[0][0].shape[1], 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(inputs["weight"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"])
    functions["accumulate_epoch"](model, micro_batches, optimizer, nn.MSELoss(), inputs["accumulate"])
    return {"weight": model.weight}


_WORKED = {"x": [[[2.0]], [[3.0]]], "y": [[[1.0]], [[2.0]]]}


def _case(x: list[Any], y: list[Any], accumulate: int) -> dict[str, Any]:
    return {
        "x": [np.array(rows) for rows in x],
        "y": [np.array(rows) for rows in y],
        "weight": np.array([[0.0]]),
        "learning_rate": 0.1,
        "accumulate": accumulate,
    }


def _weight(value: float) -> dict[str, dict[str, np.ndarray]]:
    return {"epoch": {"weight": np.array([[value]])}}


QUESTION = PublicQuestion(
    id="03a-accumulate",
    title="accumulate over K micro-batches",
    functions=("accumulate_epoch",),
    parts={"epoch": _epoch},
    relative_tolerance=1e-6,
    cases=(
        PublicCase(
            name="the worked example: K = 2, (x, y) = (2, 1), (3, 2)",
            inputs=_case(_WORKED["x"], _WORKED["y"], 2),
            expected=_weight(0.8),
            mistakes={
                "no-division": _weight(1.6),
                "step-every-batch": _weight(0.88),
                "zeroed-too-often": _weight(0.6),
                "never-steps": _weight(0.0),
            },
        ),
        PublicCase(
            name="uneven: two examples (2, 1), (2, 1), then one (3, 2), K = 2",
            inputs=_case([[[2.0], [2.0]], [[3.0]]], [[[1.0], [1.0]], [[2.0]]], 2),
            expected=_weight(2 / 3),
            mistakes={"mean-of-means": _weight(0.8), "no-division": _weight(1.6)},
        ),
        PublicCase(
            name="an incomplete last window: three micro-batches, K = 2",
            inputs=_case([*_WORKED["x"], [[1.0]]], [*_WORKED["y"], [[2.0]]], 2),
            expected=_weight(1.04),
            mistakes={
                "last-window-dropped": _weight(0.8),
                "divide-by-k": _weight(0.92),
                "no-division": _weight(1.68),
                "never-zeroed": _weight(1.84),
            },
        ),
    ),
    misconceptions={
        "no-division": Misconception(
            "the gradients were summed without a weight, so the step is K times too long",
            "what one big batch's loss divides by",
        ),
        "divide-by-k": Misconception(
            "the loss was divided by the K that was asked for, also where the window holds fewer micro-batches or "
            "micro-batches of unequal size",
            "how many examples are in this window, and how many of them are in this micro-batch",
        ),
        "mean-of-means": Misconception(
            "every micro-batch counts the same, whether it holds two examples or one",
            "the weight of one example in the big batch's mean",
        ),
        "last-window-dropped": Misconception(
            "the last, shorter window was never stepped: its examples are lost every epoch",
            "what is left in .grad when the loop ends",
        ),
        "never-zeroed": Misconception(
            "the gradients of the first window are still in .grad in the second",
            "when the gradients are cleared",
        ),
        "zeroed-too-often": Misconception(
            "the gradients were cleared at every micro-batch, so only the last one of a window counts",
            "at which of the two levels, micro-batch or window, the gradients are cleared",
        ),
        "step-every-batch": Misconception(
            "the optimizer stepped after every micro-batch: that is training with small batches",
            "how many steps the worked example takes",
        ),
        "never-steps": Misconception("the weights did not move", "whether optimizer.step() is reached"),
    },
)
