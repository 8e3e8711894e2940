"""The coefficient of determination of several quantities at once takes one mean over all of them: since they lie on
different levels, their distance counts as variance, and a middling model is reported as nearly perfect.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS = 20
LEVELS = torch.tensor([290.0, 80.0, 12.0])
SPREADS = torch.tensor([8.0, 6.0, 4.0])


def weather(count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Temperature in kelvin, humidity in percent and wind in metres per second, from eight readings."""
    x = rng.normal(size=(count, 8))
    hidden = np.stack([np.tanh(x[:, 0] + x[:, 1] * x[:, 2]), x[:, 3] * x[:, 4], np.abs(x[:, 5]) - 0.8], axis=1)
    y = torch.tensor(hidden + rng.normal(0, 0.4, size=(count, 3)), dtype=torch.float32)
    return torch.tensor(x, dtype=torch.float32), LEVELS + SPREADS * y


def overall(outputs: Tensor, targets: Tensor) -> float:
    """Coefficient of determination."""
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def averaged(outputs: Tensor, targets: Tensor) -> float:
    """Coefficient of determination, averaged over the quantities."""
    error, variance = (outputs - targets).square().sum(0), (targets - targets.mean(0)).square().sum(0)
    return float((1 - error / variance).mean())


class Station(nn.Module):
    """A shared trunk and a head for each quantity, in the units of the quantities."""

    def __init__(self, level: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(48, 1) for _ in range(3)])
        self.register_buffer("level", level)
        self.register_buffer("spread", spread)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.trunk(x)
        return self.level + self.spread * torch.cat([head(shared) for head in self.heads], dim=1)


def build(seed: int, metric: Callable[[Tensor, Tensor], float]) -> tuple[Program, Spec]:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y = weather(3000, rng)
    x_val, y_val = weather(1000, rng)
    mean, std, level, spread = x.mean(0), x.std(0), y.mean(0), y.std(0)
    model = Station(level, spread)

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs / spread, targets / spread)

    loader = DataLoader(
        TensorDataset((x - mean) / std, y), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        loss_fn=loss_fn,
        train_loader=loader,
        val_loader=DataLoader(TensorDataset((x_val - mean) / std, y_val), batch_size=250),
        metric=metric,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, overall)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, averaged)
