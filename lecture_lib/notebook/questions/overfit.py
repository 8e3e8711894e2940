"""03b-overfit: run a program on one batch, compare its loss with the lowest that it can have, put the model back."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..question import Functions, Inputs, PublicQuestion
from .branches import changes
from .overfit_programs import build_program

VERDICTS = ("holds", "fails", "one class")
KEPT, CHANGED = "as they came", "changed"


def _rung(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model, step, loss_fn = build_program(inputs)
    x, y = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
    steps = {"steps": 0, "in training mode": 0}

    def counted(x: Tensor, y: Tensor) -> None:
        steps["steps"] += 1
        steps["in training mode"] += all(module.training for module in model.modules())
        step(x, y)

    before = copy.deepcopy(model)
    # Dropout in the program draws from torch's stream: the same verdict each time.
    torch.manual_seed(inputs["seed"])
    verdict = functions["overfit_rung"](model, counted, loss_fn, x, y, inputs["floor"])
    if not isinstance(verdict, str):
        raise TypeError(f"overfit_rung returned a {type(verdict).__name__}; return one of {', '.join(VERDICTS)}")
    mixed, changed = len(y.unique()) > 1, changes(before, model)
    return {
        "verdict": verdict,
        **{name: count if mixed else 0 for name, count in steps.items()},
        "steps on one class": 0 if mixed else steps["steps"],
        "weights": CHANGED if changed["parameters"] else KEPT,
        "buffers": changed["buffers"],
        "mode": "training" if all(module.training for module in model.modules()) else "evaluation",
    }


QUESTION = PublicQuestion(
    id="03b-overfit", title="overfit one batch", functions=("overfit_rung",), parts={"rung": _rung}
)
