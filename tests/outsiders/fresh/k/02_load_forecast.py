"""One-step forecast of an hourly electricity load: a GRU reads the last 48 hours and gives the next one.

Fault: outputs have shape (batch, 1) and targets (batch,), so that the hand-written Huber loss broadcasts to (batch,
batch) and compares every forecast with every target: the network learns the median. The twin squeezes the outputs in
the loss.

Measured (seeds 0 and 1): R2 0.036 and 0.036; twin 0.969 and 0.962.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)

WINDOW = 48
HOURS = 2400
TRAIN_HOURS = 1900
EPOCHS = 12


def simulate_load(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(HOURS)
    daily = 12 * np.sin(2 * np.pi * t / 24) + 5 * np.sin(4 * np.pi * t / 24 + 0.7)
    weekly = 6 * np.sin(2 * np.pi * t / 168)
    noise = np.zeros(HOURS)
    for i in range(1, HOURS):
        noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 1.5)
    return 100 + daily + weekly + noise


class Windows(Dataset):
    def __init__(self, series, start, stop):
        self.series = torch.tensor(series, dtype=torch.float32)
        self.positions = range(start + WINDOW, stop)

    def __len__(self):
        return len(self.positions)

    def __getitem__(self, i):
        t = self.positions[i]
        return self.series[t - WINDOW : t].unsqueeze(-1), self.series[t]

    @property
    def times(self):
        return [float(t) for t in self.positions]


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.gru(x)
        return self.out(states[:, -1])


def huber(residual, delta=1.0):
    size = residual.abs()
    return torch.where(size < delta, 0.5 * size**2, delta * (size - 0.5 * delta)).mean()


def r2(outputs, targets):
    outputs, targets = outputs.flatten(), targets.flatten()
    return 1 - ((outputs - targets) ** 2).sum().item() / ((targets - targets.mean()) ** 2).sum().item()


def build(seed, flat):
    torch.manual_seed(seed)
    series = simulate_load(seed)
    mean, std = series[:TRAIN_HOURS].mean(), series[:TRAIN_HOURS].std()
    series = (series - mean) / std
    train, val = Windows(series, 0, TRAIN_HOURS), Windows(series, TRAIN_HOURS, HOURS)

    def loss_fn(outputs, targets):
        if flat:
            outputs = outputs.squeeze(-1)
        return huber(outputs - targets)

    model = Forecaster()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 128),
        metric=r2,
    )
    spec = Spec(task="regression", epochs=EPOCHS, train_times=train.times, val_times=val.times)
    return program, spec


def make(seed):
    return build(seed, flat=False)


def twin(seed):
    return build(seed, flat=True)
