"""The hidden sine layers draw their weights without dividing the range by omega: each layer multiplies the frequencies,
and the map passes through the training points and is noise between them.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("initialisation",)


def survey(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Heights of a hilly landscape at scattered points."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-1, 1, (points, 2))
    waves, phases = rng.normal(0, 3.0, (2, 8)), rng.uniform(0, 2 * np.pi, 8)
    height = 300 + 40 * np.sin(place @ waves + phases).sum(1) + 60 * np.maximum(0, place[:, 0] + 0.5 * place[:, 1])
    return place, height + rng.normal(0, 4.0, points)


class Sine(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, omega: float, bound: float) -> None:
        super().__init__()
        self.linear, self.omega = nn.Linear(fan_in, fan_out), omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.omega * self.linear(x))


class Landscape(nn.Module):
    """Height as a function of the place (SIREN)."""

    def __init__(self, shrink: float, width: int = 48, omega: float = 6.0) -> None:
        super().__init__()
        bound = math.sqrt(6 / width) / shrink
        self.net = nn.Sequential(
            Sine(2, width, omega, 1 / 2),
            Sine(width, width, omega, bound),
            Sine(width, width, omega, bound),
            nn.Linear(width, 1),
            nn.Flatten(0),
        )

    def forward(self, place: Tensor) -> Tensor:
        return self.net(place)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return 1.0 - float(((outputs - targets) ** 2).mean() / targets.var(correction=0))


def build(seed: int, shrink: float) -> tuple[Program, Spec]:
    place, height = survey(1600, seed)
    centre, spread = height[:1200].mean(), height[:1200].std()
    scale = place[:1200].std(0)
    x = torch.tensor((place - place[:1200].mean(0)) / scale, dtype=torch.float32)
    y = torch.tensor((height - centre) / spread, dtype=torch.float32)

    torch.manual_seed(seed)
    model = Landscape(shrink)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(x[:1200], y[:1200]),
            batch_size=60,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=200),
        scheduler=CosineAnnealingLR(optimizer, T_max=40),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=40, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, shrink=1.0)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, shrink=6.0)
