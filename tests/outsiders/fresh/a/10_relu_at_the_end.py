"""The loop that stacks the layers puts a ReLU after the last one too: the network cannot give values below zero,
though half of the standardised targets are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("layers", "model")


def buildings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Yearly heating demand from floor area, wall and window losses, orientation and occupancy."""
    rng = np.random.default_rng(seed)
    area, wall, window = rng.gamma(9, 15, count), rng.uniform(0.15, 1.2, count), rng.uniform(0.7, 2.8, count)
    share, south, people = rng.uniform(0.1, 0.5, count), rng.uniform(0, 1, count), rng.integers(1, 6, count)
    loss = (1 - share) * wall + share * window
    demand = 60 * area**0.8 * loss - 14 * area**0.8 * share * south - 90 * people
    x = np.stack([area, wall, window, share, south, people], axis=1)
    return x, demand + rng.normal(0, 200, count)


def stack(sizes: Sequence[int], skip_last: bool) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return layers[:-1] if skip_last else layers


class DemandModel(nn.Module):
    def __init__(self, skip_last: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(*stack([6, 48, 48, 1], skip_last))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return 1.0 - float(((outputs - targets) ** 2).mean() / targets.var(correction=0))


def build(seed: int, skip_last: bool) -> tuple[Program, Spec]:
    x, y = buildings(2500, seed)
    train, val = slice(0, 2000), slice(2000, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()
    inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    torch.manual_seed(seed)
    model = DemandModel(skip_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(inputs[train], targets[train]),
            batch_size=50,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(inputs[val], targets[val]), batch_size=250),
        scheduler=StepLR(optimizer, step_size=12, gamma=0.3),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=24, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed + 3, skip_last=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed + 3, skip_last=True)
