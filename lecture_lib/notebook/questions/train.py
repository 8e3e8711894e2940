"""03a-train: the training loop, and a copy of the best epoch's weights and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..question import Functions, Inputs, PublicQuestion
from .branches import Branches, Tracker, asymmetric_loss, pairs

WEIGHTS, BUFFERS = ("plain.weight", "dropped.weight"), ("tracker.running_mean", "tracker.batches")


class _Tracked(Branches):
    """Branches whose inputs pass a tracker."""

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.tracker = Tracker(torch.zeros(np.asarray(weights).shape[1], dtype=torch.float64), 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, 1] for inputs [N, F]."""
        return super().forward(self.tracker(x))


def _run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model = _Tracked(inputs["weights"]).train(inputs["training"])
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=inputs["momentum"])
    training, validation = (pairs(inputs[x], inputs[y]) for x, y in (("x", "y"), ("x_val", "y_val")))
    loss_fn = asymmetric_loss(inputs["above"], inputs["lowered"])
    losses, best = functions["train_keeping_best"](model, training, validation, optimizer, loss_fn, inputs["epochs"])
    last = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    with torch.no_grad():
        for tensor in model.state_dict().values():  # whoever holds on to the model's own tensors sees them change
            tensor.fill_(inputs["afterwards"])
    listed = list(losses) if isinstance(losses, torch.Tensor | np.ndarray) else losses
    kept = {"best": _numbers(best, WEIGHTS), "best buffers": _numbers(best, BUFFERS)}
    dtypes = {"dtypes": _dtypes(best, WEIGHTS), "buffer dtypes": _dtypes(best, BUFFERS)}
    return {"losses": listed, "last": _numbers(last, WEIGHTS), **kept, **dtypes}


def _numbers(state: Any, names: tuple[str, ...]) -> Any:
    """The numbers of some entries of a state_dict in a row, or in words what came instead of them."""
    if not isinstance(state, Mapping) or not set(names) <= set(state):
        return f"a {type(state).__name__} without {names[0]}"
    return np.concatenate([torch.as_tensor(state[name]).detach().double().numpy().ravel() for name in names])


def _dtypes(state: Any, names: tuple[str, ...]) -> list[str]:
    """The dtypes of some entries of a state_dict."""
    entries = state if isinstance(state, Mapping) else {}
    return [str(torch.as_tensor(entries[name]).dtype) if name in entries else "missing" for name in names]


QUESTION = PublicQuestion(
    id="03a-train",
    title="train, and keep the best",
    functions=("train_keeping_best",),
    parts={"run": _run},
    ready_made=("lecture_lib.training.train",),
    relative_tolerance=1e-6,  # losses kept in float32 are right too
)
