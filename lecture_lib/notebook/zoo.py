"""The checklist of a loss that does not go down, as programs: one small batch, one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .questions.overfit_programs import HIDDEN, build_program, draw_program

CHECKLIST: Mapping[str, Mapping[str, Any]] = {
    "healthy": {},
    "rate too small": {"learning_rate": 1e-5},
    "rate too large": {"learning_rate": 100.0},
    "second softmax": {"softmax": True},
    "never cleared": {"clears": False, "momentum": 0.0},
    "never cleared, smoothed labels": {"clears": False, "momentum": 0.0, "smoothing": 0.1},
    "dead ReLUs": {"bias": -50.0},
    "frozen parameters": {"frozen": [0, 1, 2]},
    "inputs not scaled": {"scale": 255.0},
}


def gap_after(steps: int, classes: int = 4, seed: int = 3, **settings: Any) -> float:
    """How far the loss on the batch is above its floor (nats) after a number of steps.

    Args:
        steps: of the program, on its one batch.
        classes: of the labels.
        seed: draws batch and weights.
        settings: of the program, as in `CHECKLIST`. `bias` is given to every hidden unit.

    """
    bias = settings.pop("bias", None)
    program = draw_program(np.random.default_rng(seed), classes, **settings)
    if bias is not None:
        program["weights"][1] = np.full(HIDDEN, bias, np.float32)
    model, step, loss_fn = build_program(program)
    x, y = torch.tensor(program["x"]), torch.tensor(program["y"])
    for _ in range(steps):
        step(x, y)
    with torch.no_grad():
        return loss_fn(model(x), y).item() - program["floor"]
