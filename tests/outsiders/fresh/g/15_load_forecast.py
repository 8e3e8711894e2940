"""Forecast the mean load of the next 12 hours from the last 72 hours with an MLP.

Fault: the series is cut into windows at every hour, and the windows are split at random into training and validation.
Nearly every validation window overlaps training windows that begin one hour earlier or later and share 11 of the 12
hours of its target: the network can learn the noise by heart, and the reported R2 is far too good for what is to come.
The repaired program validates on the last fifth of the time, with a gap of one window.

Measured (seeds 0 and 1): reported R2 0.936 and 0.948 faulty, 0.663 and 0.607 repaired; MSE 0.031 and 0.030 against
0.198 and 0.197. The reported number is too good (a leak): on the 600 hours that follow, the faulty program's network
has R2 0.733 and 0.632.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
EPOCHS = 30
PAST, AHEAD = 72, 12
Split = tuple[np.ndarray, np.ndarray]


def _load(rng: np.random.Generator, hours: int = 1500) -> np.ndarray:
    """A day's rhythm and a slowly forgetting disturbance."""
    noise = np.zeros(hours)
    for hour in range(1, hours):
        noise[hour] = 0.95 * noise[hour - 1] + 0.31 * rng.normal()
    return 50 + 2.5 * np.sin(2 * np.pi * np.arange(hours) / 24) + noise


def _random_split(count: int, rng: np.random.Generator) -> Split:
    rows = rng.permutation(count)
    return rows[: int(0.8 * count)], rows[int(0.8 * count) :]


def _split_in_time(count: int, rng: np.random.Generator) -> Split:
    cut = int(0.8 * count)
    return rng.permutation(cut - PAST - AHEAD), np.arange(cut, count)


def _r2(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def _build(seed: int, split: Callable[[int, np.random.Generator], Split]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    load = _load(rng)
    windows = np.lib.stride_tricks.sliding_window_view(load, PAST + AHEAD)
    train, val = split(len(windows), rng)
    mean, std = windows[train].mean(), windows[train].std()
    x = torch.tensor((windows[:, :PAST] - mean) / std, dtype=torch.float32)
    y = torch.tensor((windows[:, PAST:].mean(1, keepdims=True) - mean) / std, dtype=torch.float32)
    model = nn.Sequential(nn.Linear(PAST, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(x[train], y[train]), 32, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), 64),
        metric=_r2,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _random_split)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _split_in_time)
