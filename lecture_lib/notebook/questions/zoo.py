"""The checklist of a loss that does not go down, as programs: one small batch, one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .overfit_programs import HIDDEN, build_program, draw_program

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


def small_run(images: Tensor, labels: Tensor, seed: int, permuted: bool = False) -> tuple[float, float]:
    """Memorise 72 images, and validate on 300 others.

    Args:
        images: [N, 1, 8, 8].
        labels: 0 to 9, [N].
        seed: draws the images and the first weights.
        permuted: give the 72 images each other's labels.

    Returns:
        The validation loss of the network and that of the constant answer (the frequencies of the 72, with one added to
        each class so that none is 0), in nats.

    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    few, held_out = order[:72], order[72:372]
    y = labels[few][torch.randperm(72, generator=generator)] if permuted else labels[few]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[few]), y).backward()
        optimizer.step()
    constant = ((torch.bincount(y, minlength=10) + 1) / (len(y) + 10)).log()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images[held_out]), labels[held_out])
    return loss.item(), -constant[labels[held_out]].mean().item()
