"""03c-schedules: the learning rate of every step, computed before a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..question import Functions, Inputs, PublicQuestion


def _rates(function: str, *arguments: str) -> Callable[[Functions, Inputs], dict[str, Any]]:
    """Call a function with these inputs of the case; its rates may come in any sequence of numbers."""

    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        values = [list(each) if isinstance(each := inputs[name], list) else each for name in arguments]
        return {"rates": np.array([float(rate) for rate in functions[function](*values)])}

    return observe


_RUN = ("epochs", "batches", "accumulate")
_SCHEDULERS = (
    "StepLR",
    "MultiStepLR",
    "LambdaLR",
    "LinearLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ReduceLROnPlateau",
)
_LIBRARY = ("warmup_cosine", "with_warmup", "schedule_rates")

QUESTION = PublicQuestion(
    id="03c-schedules",
    title="the rate of every step",
    functions=("multi_step_rates", "warmup_cosine_rates", "applied_rates", "plateau_rates"),
    parts={
        "multi_step": _rates("multi_step_rates", "rate", "milestones", "factor", *_RUN),
        "warmup_cosine": _rates("warmup_cosine_rates", "rate", "final", "warmup", *_RUN),
        "applied": _rates("applied_rates", "planned", "taken"),
        "plateau": _rates("plateau_rates", "rate", "losses", "factor", "patience"),
    },
    repeatable=("multi_step_rates", "warmup_cosine_rates", "applied_rates", "plateau_rates"),
    ready_made=(
        *(f"torch.optim.lr_scheduler.{name}" for name in _SCHEDULERS),
        *(f"lecture_lib.training.{name}" for name in _LIBRARY),
    ),
    relative_tolerance=1e-6,
)
