"""Small training programs for 03b-overfit: healthy ones, and ones with a single fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .branches import Tracker

EXAMPLES, FEATURES, HIDDEN = 16, 24, 32
HEALTHY: dict[str, Any] = {
    "learning_rate": 0.15,
    "momentum": 0.9,
    "growth": 1.0,
    "clears": True,
    "frozen": [],
    "scale": 1.0,
    "dropout": 0.0,
    "softmax": False,
    "smoothing": 0.0,
    "norm": False,
    "temper": 1.0,
    "own_temper": 1.0,
    "logarithm": True,
}


class Scaled(nn.Module):
    """What a preprocessing step inside of a model does: multiplies its inputs by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Inputs of any shape, times the factor."""
        return x * self.factor


class Tempered(nn.Sequential):
    """Multiplies its outputs by a number in training mode only, as regularisation may: without a random number."""

    def __init__(self, factor: float, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """What the layers give, times the factor in training mode."""
        outputs: Tensor = super().forward(x)
        return outputs * self.factor if self.training else outputs


def floor_of_smoothing(smoothing: float, classes: int) -> float:
    """The lowest cross-entropy (nats) with label smoothing: the entropy of the smoothed labels."""
    wrong = smoothing / classes
    right = 1 - smoothing + wrong
    return -right * math.log(right) - ((classes - 1) * wrong * math.log(wrong) if wrong else 0.0)


def draw_program(rng: np.random.Generator, classes: int, **settings: Any) -> dict[str, Any]:
    """A batch of mixed classes, first weights, and how the program trains, as plain data."""
    x = rng.normal(size=(EXAMPLES, FEATURES))
    shapes = [(HIDDEN, FEATURES), (HIDDEN,), (classes, HIDDEN), (classes,)]
    weights = [rng.uniform(-1, 1, shape) / math.sqrt(shape[-1]) for shape in shapes]
    program = {
        "x": x.astype(np.float32),
        "y": rng.permutation(np.arange(EXAMPLES) % classes),
        "weights": [weight.astype(np.float32) for weight in weights],
        "seed": int(rng.integers(2**31)),
        **HEALTHY,
        **settings,
    }
    return {"floor": floor_of_smoothing(program["smoothing"], classes), **program}


def build_program(
    program: Mapping[str, Any],
) -> tuple[nn.Module, Callable[[Tensor, Tensor], None], Callable[[Tensor, Tensor], Tensor]]:
    """The model in training mode, its author's step on a batch, and its loss function."""
    weights = [torch.tensor(weight) for weight in program["weights"]]
    first, last = (nn.Linear(weight.shape[1], weight.shape[0]) for weight in weights[::2])
    norm = nn.BatchNorm1d(HIDDEN, affine=False) if program["norm"] else nn.Identity()
    tracked = nn.Sequential(nn.Sequential(Tracker(torch.zeros(FEATURES), 0.1)))
    before = tracked, Scaled(program["scale"]), nn.Dropout(program["dropout"])
    layers = *before, first, norm, nn.ReLU(), last, Tempered(program["temper"])
    model = Tempered(program["own_temper"], *layers)
    if program["softmax"]:
        model.append(nn.Softmax(dim=1))
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(weight)
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(index not in program["frozen"])
    optimizer = torch.optim.SGD(model.parameters(), lr=program["learning_rate"], momentum=program["momentum"])
    loss_fn = nn.CrossEntropyLoss(label_smoothing=program["smoothing"]) if program["logarithm"] else nn.NLLLoss()

    def step(x: Tensor, y: Tensor) -> None:
        if program["clears"]:
            optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= program["growth"]

    return model, step, loss_fn
