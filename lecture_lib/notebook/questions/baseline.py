"""03b-baseline: the numbers that any model has to beat, before there is a model."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion

FIELDS = ("majority_accuracy", "constant_loss", "initial_loss")


def _field(name: str) -> Any:
    def run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        y_train, y_val = torch.tensor(inputs["y_train"]), torch.tensor(inputs["y_val"])
        # A tuple, a list, an array and a generator of three numbers are the same.
        numbers = list(functions["baselines"](y_train, y_val, inputs["classes"]))
        return {name: dict(zip(FIELDS, numbers, strict=True))[name]}

    return run


QUESTION = PublicQuestion(
    id="03b-baseline",
    title="three baselines",
    functions=("baselines",),
    parts={name: _field(name) for name in FIELDS},
    repeatable=("baselines",),
    relative_tolerance=1e-5,  # float32 is precise enough
)
