"""ReduceLROnPlateau watches the validation loss but is told that higher is better: each improvement counts as a bad
epoch, and the rate of the forecasting model falls to nothing while it still learns.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)
EPOCHS, PAST, AHEAD = 30, 36, 6
STEPS, SPLIT = 2400, 1700


class Forecaster(nn.Module):
    """A GRU that reads the past and gives all of the next values at once, relative to the last one."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.gru = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, AHEAD)

    def forward(self, past: Tensor) -> Tensor:
        _, state = self.gru(past.unsqueeze(-1))
        return past[:, -1:] + self.head(state[-1])


def series(seed: int) -> Tensor:
    """Two seasons, the weaker of which drifts in phase, and noise."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.arange(STEPS, dtype=torch.float32)
    drift = 0.06 * torch.randn(STEPS, generator=generator).cumsum(0)
    wave = torch.sin(2 * math.pi * time / 24) + 0.8 * torch.sin(2 * math.pi * time / 9 + drift)
    return wave + 0.15 * torch.randn(STEPS, generator=generator)


def windows(values: Tensor) -> TensorDataset:
    cut = values.unfold(0, PAST + AHEAD, 1)
    return TensorDataset(cut[:, :PAST], cut[:, PAST:])


def train_epoch(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step(program.run_evaluation()["loss"])


def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    past, future = batch
    program.optimizers[0].zero_grad()
    program.loss_fn(program.outputs(past), future).backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), 1.0)
    program.optimizers[0].step()


def skill(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, mode: str) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    values = series(seed)
    values = (values - values[:SPLIT].mean()) / values[:SPLIT].std()
    train, val = windows(values[:SPLIT]), windows(values[SPLIT:])
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=ReduceLROnPlateau(optimizer, mode=mode, factor=0.2, patience=2),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=256),
        step=step,
        train_epoch=train_epoch,
        metric=skill,
    )
    spec = Spec(
        task="regression",
        epochs=EPOCHS,
        max_norm=1.0,
        scheduler_steps="epoch",
        train_times=[float(i) for i in range(len(train))],
        val_times=[float(SPLIT + i) for i in range(len(val))],
    )
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, "max")


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, "min")
