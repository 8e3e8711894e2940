"""03a-train: the training loop, and a copy of the best epoch's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion
from .branches import Branches, pairs


def _run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model = Branches(inputs["weights"]).train(inputs["training"])
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=inputs["momentum"])
    training, validation = (pairs(inputs[x], inputs[y]) for x, y in (("x", "y"), ("x_val", "y_val")))
    losses, best = functions["train_keeping_best"](
        model, training, validation, optimizer, nn.MSELoss(), inputs["epochs"]
    )
    last = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():  # whoever holds on to the model's own tensors sees them change
            weight.fill_(inputs["afterwards"])
    listed = list(losses) if isinstance(losses, torch.Tensor | np.ndarray) else losses
    return {"losses": listed, "last": _rows(last), "best": _rows(best)}


def _rows(state: Any) -> Any:
    """The weights of a state_dict as [2, F], or in a word what came instead of one."""
    names = ("plain.weight", "dropped.weight")
    if not isinstance(state, Mapping) or not set(names) <= set(state):
        return f"a {type(state).__name__}"
    return np.concatenate([torch.as_tensor(state[name]).detach().double().numpy() for name in names])


def _column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


_SHARED: dict[str, Any] = {
    "x": [_column(1)],
    "y": [_column(1)],
    "weights": [[0.0], [1.0]],
    "training": True,
    "learning_rate": 0.25,
    "momentum": 0.0,
    "afterwards": 9.0,
    "epochs": 3,
    "x_val": [_column(1)],
    "y_val": [_column(1.7)],
}
_RIGHT = {"losses": [0.04, 0.0025, 0.030625], "last": _column(0.875, 1), "best": _column(0.75, 1)}

QUESTION = PublicQuestion(
    id="03a-train",
    title="train, and keep the best",
    functions=("train_keeping_best",),
    parts={"run": _run},
    ready_made=("lecture_lib.training.train",),
    cases=(
        PublicCase(
            name="one batch (1, 1), three epochs, validation (1, 1.7)",
            inputs=_SHARED,
            expected={"run": _RIGHT},
            mistakes={
                "never-zeroed": {"run": {"last": _column(1.875, 1)}},
                "never-moves": {"run": {"last": _column(0, 1)}},
                "step-before-backward": {"run": {"losses": [0.49, 0.04, 0.0025]}},
                "stays-in-eval": {"run": {"last": _column(0.25, 0.75)}},
                "ended-with-best": {"run": {"losses": _RIGHT["losses"], "last": _column(0.75, 1)}},
                "validated-in-train-mode": {"run": {"losses": [1.44, 0.9025, 0.680625]}},
                "alias": {"run": {"best": _column(9, 9)}},
                "last-kept": {"run": {"best": _column(0.875, 1)}},
                "worst-kept": {"run": {"best": _column(0.5, 1)}},
            },
        ),
        PublicCase(
            name="the same with momentum 0.5, the model in eval mode when it comes",
            inputs={**_SHARED, "momentum": 0.5, "training": False},
            expected={"run": {"losses": [0.04, 0.09, 0.3025], "last": _column(1.25, 1), "best": _column(0.5, 1)}},
            mistakes={
                "stays-in-eval": {"run": {"last": _column(0, 1)}},
                "alias": {"run": {"best": _column(9, 9)}},
                "last-kept": {"run": {"best": _column(1.25, 1)}},
            },
        ),
    ),
    misconceptions={
        "never-zeroed": Misconception(
            "every step used the gradients of all the batches before it as well",
            "what backward() does to a .grad that is not empty",
        ),
        "never-moves": Misconception(
            "the weights are those that the model came with",
            "what is in .grad at the moment of the step",
        ),
        "step-before-backward": Misconception(
            "each step used the gradient of the batch before, and the last gradient was never used",
            "which of backward() and step() comes first",
        ),
        "stays-in-eval": Misconception(
            "after the first evaluation the model was trained in eval mode, with dropout switched off",
            "the model's mode when the second epoch begins",
        ),
        "ended-with-best": Misconception(
            "the best weights were put back into the model, which should keep its last ones",
            "what the model should end with, and what is returned beside it",
        ),
        "validated-in-train-mode": Misconception(
            "the validation losses were measured in train mode, with dropout dropping",
            "the mode in which the model sees the validation batches",
        ),
        "alias": Misconception(
            "the best weights that you returned are the model's own tensors: they changed when the model changed",
            "whether state_dict() copies anything",
        ),
        "last-kept": Misconception(
            "the weights that you returned are those of the last epoch, which is not the best one",
            "when the copy is made, and what is compared before it",
        ),
        "worst-kept": Misconception(
            "the weights that you returned are those of the epoch with the highest validation loss",
            "in which direction the comparison goes",
        ),
    },
)
