"""The pinball loss takes the error as forecast minus demand instead of demand minus forecast: the stock model learns
the 10 % quantile where the 90 % quantile is wanted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import d2_pinball_score
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("loss",)
SERVICE = 0.9


def sales(days: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Daily sales of a bakery: weekday, season, price and last week's sales."""
    rng = np.random.default_rng(seed)
    day = np.arange(days)
    weekday = np.eye(7)[day % 7]
    price, promo = rng.normal(2.5, 0.2, days), rng.random(days) < 0.2
    level = 60 + weekday @ np.array([-8, -5, -4, 0, 12, 30, -20]) + 12 * np.sin(day / 365 * 2 * np.pi)
    level = level - 25 * (price - 2.5) + 18 * promo
    sold = rng.gamma(9.0, level / 9.0)
    season = np.stack([np.sin(day / 365 * 2 * np.pi), np.cos(day / 365 * 2 * np.pi)], 1)
    x = np.column_stack([weekday, price, promo, season, np.roll(sold, 7)])
    return x[7:], sold[7:]


def forecast_minus_demand(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs - targets


def demand_minus_forecast(outputs: Tensor, targets: Tensor) -> Tensor:
    return targets - outputs


def pinball(error_fn: Callable[[Tensor, Tensor], Tensor], level: float) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        error = error_fn(outputs, targets)
        return torch.maximum(level * error, (level - 1) * error).mean()

    return loss


def explained(outputs: Tensor, targets: Tensor) -> float:
    return float(d2_pinball_score(targets.numpy(), outputs.numpy(), alpha=SERVICE))


def build(seed: int, error_fn: Callable[[Tensor, Tensor], Tensor]) -> tuple[Program, Spec]:
    x, y = sales(4007, seed)
    train, val = slice(0, 3000), slice(3000, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()
    inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=pinball(error_fn, SERVICE),
        train_loader=DataLoader(
            TensorDataset(inputs[train], targets[train]),
            batch_size=50,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(inputs[val], targets[val]), batch_size=200),
        scheduler=CosineAnnealingLR(optimizer, T_max=15),
        metric=explained,
    )
    return program, Spec(task="regression", epochs=15, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, forecast_minus_demand)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, demand_minus_forecast)
