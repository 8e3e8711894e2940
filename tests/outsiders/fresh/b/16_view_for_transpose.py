"""The model turns (batch, time, channel) into (batch, channel, time) with view instead of transpose: the numbers are
poured into the other shape, and each channel of the convolution is a jumble of all sensors.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)
EPOCHS, TIME, SENSORS, CLASSES = 25, 40, 6, 6


class Movement(nn.Module):
    """Convolutions over the time of several sensors."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(SENSORS, width, 7, padding=3),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
        )
        self.head = nn.Linear(width, CLASSES)

    def channels_first(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(2), x.size(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.channels_first(x)).flatten(1))


class MovementTransposed(Movement):
    """Convolutions over the time of several sensors."""

    def channels_first(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def movements(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three pairs of sensors; the class is the pair that swings, and which sensor of it comes first."""
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    time = torch.linspace(0, 1, TIME)
    pitch = 3 + 2 * torch.rand(count, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator)
    lag = torch.where(y % 2 == 0, 0.5 * math.pi, -0.5 * math.pi)[:, None]
    rows, pair = torch.arange(count), 2 * (y // 2)
    x = torch.randn(count, TIME, SENSORS, generator=generator)
    x[rows, :, pair] += 1.2 * torch.sin(2 * math.pi * pitch * time + phase)
    x[rows, :, pair + 1] += 1.2 * torch.sin(2 * math.pi * pitch * time + phase + lag)
    return x, y


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, architecture: type[Movement]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = movements(1500, generator)
    x_val, y_val = movements(800, generator)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    train, val = TensorDataset((x - mean) / std, y), TensorDataset((x_val - mean) / std, y_val)
    model = architecture()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=CLASSES, epochs=EPOCHS, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, Movement)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, MovementTransposed)
