"""The next hour's load of a power grid from the 24 hours before it, with a GRU.

A generated hourly series with a daily rhythm, a slow random level and noise is cut into windows; the first part of the
time is for training, the last for validation. Evaluation reports R2 and the mean absolute error in megawatts.

Fault: the index of the target is off by one: window i holds hours i to i+23 and the target is hour i+23, the window's
own last value, so the network needs only to copy it. The twin's target is hour i+24.

Measured (seeds 0 and 1): R2 0.999 and 0.999 with the fault, 0.796 and 0.787 in the twin; mean absolute error 1.2 and
1.1 MW against 26.3 and 27.4.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
WINDOW, HOURS, TRAIN_HOURS = 24, 1800, 1400


def load(seed):
    rng = np.random.default_rng(seed)
    hours = np.arange(HOURS)
    level = np.zeros(HOURS)
    for t in range(1, HOURS):
        level[t] = 0.9 * level[t - 1] + rng.normal(0, 12)
    daily = 80 * np.sin(2 * np.pi * hours / 24) + 35 * np.sin(4 * np.pi * hours / 24 + 1.0)
    return (500 + daily + level + rng.normal(0, 25, HOURS)).astype(np.float32)


class Windows(Dataset):
    """Pieces of a series with the value to be forecast from each."""

    def __init__(self, series, offset):
        self.series, self.offset = torch.from_numpy(series), offset

    def __len__(self):
        return len(self.series) - WINDOW

    def __getitem__(self, i):
        return self.series[i : i + WINDOW].unsqueeze(1), self.series[i + WINDOW + self.offset]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        hidden, _ = self.gru(x)
        return self.head(hidden[:, -1]).squeeze(1)


def build(seed: int, offset: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    series = load(seed)
    mean, std = series[:TRAIN_HOURS].mean(), series[:TRAIN_HOURS].std()
    scaled = (series - mean) / std
    train, val = Windows(scaled[:TRAIN_HOURS], offset), Windows(scaled[TRAIN_HOURS:], offset)
    model = Forecaster()

    def step(program, batch):
        x, y = batch
        program.optimizer.zero_grad()
        program.loss_fn(program.model(x), y).backward()
        nn.utils.clip_grad_norm_(program.model.parameters(), 1.0)
        program.optimizer.step()

    def evaluate(program):
        program.model.eval()
        with torch.no_grad():
            pairs = [(program.model(x), y) for x, y in program.val_loader]
        program.model.train()
        out, y = (torch.cat(part) for part in zip(*pairs, strict=True))
        r2 = 1 - ((out - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        return {"loss": float(((out - y) ** 2).mean()), "r2": float(r2), "mae": float((out - y).abs().mean() * std)}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, batch_size=64, shuffle=True),
        val_loader=DataLoader(val, batch_size=128),
        step=step,
        evaluate=evaluate,
    )
    spec = Spec(
        task="regression",
        epochs=10,
        max_norm=1.0,
        train_times=[float(i + WINDOW + offset) for i in range(len(train))],
        val_times=[float(TRAIN_HOURS + i + WINDOW + offset) for i in range(len(val))],
    )
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, offset=-1)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, offset=0)
