"""03a-accumulate: one epoch with K micro-batches to a step, equal to training on the big batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..question import Functions, Inputs, PublicQuestion
from .branches import asymmetric_loss


class _Watched(nn.Linear):
    """A linear layer that notes the largest batch that it was given."""

    largest = 0

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, outputs] for inputs [N, features]."""
        # The result alone does not tell whether the micro-batches were joined: one big batch gives the same weights.
        self.largest = max(self.largest, len(x))
        return super().forward(x)


def _model(inputs: Inputs) -> _Watched:
    rows = torch.tensor(inputs["weight"])
    weight, bias = (rows[:, :-1], rows[:, -1]) if inputs["bias"] else (rows, None)
    model = _Watched(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=rows.dtype)
    with torch.no_grad():
        model.weight.copy_(weight)
        if bias is not None:
            model.bias.copy_(bias)
    return model


def _train(functions: Functions, inputs: Inputs, epochs: int) -> tuple[Tensor, str]:
    micro_batches = [(torch.tensor(x), torch.tensor(y)) for x, y in zip(inputs["x"], inputs["y"], strict=True)]
    model, loss_fn = _model(inputs), asymmetric_loss(inputs["above"])
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=inputs["momentum"])
    for _ in range(epochs):
        functions["accumulate_epoch"](model, micro_batches, optimizer, loss_fn, inputs["accumulate"])
    weight = torch.cat([model.weight, model.bias[:, None]], dim=1) if inputs["bias"] else model.weight
    within = model.largest <= max(map(len, inputs["x"]))
    return weight.double(), "one micro-batch" if within else "more than the largest micro-batch"


def _epoch(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    weight, at_once = _train(functions, inputs, epochs=1)
    return {"weight": weight, "given to the model at once": at_once}


def _second_epoch(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"weight": _train(functions, inputs, epochs=2)[0]}


QUESTION = PublicQuestion(
    id="03a-accumulate",
    title="accumulate over K micro-batches",
    functions=("accumulate_epoch",),
    parts={"epoch": _epoch, "second epoch": _second_epoch},
    relative_tolerance=1e-5,  # sums and shares in float32 are right too; no wrong answer comes closer than 1e-3
)
