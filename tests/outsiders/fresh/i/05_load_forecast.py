"""Forecast of the next value of a meter: a small transformer reads 16 values of a noisy oscillation (synthetic).

Fault: The windows are (batch, time, width), but the encoder layers are built with PyTorch's default batch_first=False:
attention goes over the batch and not over time, so the last position knows only its own value and those of other
meters. The twin passes batch_first=True.

Measured (seeds 0 and 1): validation R2 0.40 and 0.51 with the fault, 0.96 and 0.95 in the twin (squared error 0.302
and 0.246, 0.023 and 0.026).
"""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")
EPOCHS = 15
WINDOW = 16
WIDTH = 16


def dataset(count, random):
    frequency = 0.05 + 0.15 * torch.rand(count, 1, generator=random)
    phase = 2 * math.pi * torch.rand(count, 1, generator=random)
    size = 0.7 + 0.6 * torch.rand(count, 1, generator=random)
    series = size * torch.sin(2 * math.pi * frequency * torch.arange(WINDOW + 1) + phase)
    series = series + 0.05 * torch.randn(series.shape, generator=random)
    return TensorDataset(series[:, :WINDOW].unsqueeze(2), series[:, WINDOW])


class Forecaster(nn.Module):
    def __init__(self, **layout):
        super().__init__()
        self.lift = nn.Linear(1, WIDTH)
        self.position = nn.Parameter(0.1 * torch.randn(WINDOW, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, nhead=2, dim_feedforward=32, dropout=0.0, norm_first=True, **layout)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, windows):
        hidden = self.lift(windows) + self.position
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden[:, -1])).squeeze(1)


def r_squared(outputs, targets):
    return float(1 - (targets - outputs).square().sum() / (targets - targets.mean()).square().sum())


def build(seed, **layout):
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    train, val = dataset(1000, random), dataset(400, random)
    model = Forecaster(**layout)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=4e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=random),
        val_loader=DataLoader(val, batch_size=50),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, batch_first=True)
