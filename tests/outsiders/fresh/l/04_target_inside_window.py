"""One-step forecast of an hourly electric load from the last 48 hours with a GRU, split by time with a gap.

Fault: the target is the last hour of the input window (`start + window - 1`), which the model only has to copy; the
twin takes the hour after the window.

Measured (seeds 0 and 1): R2 reported with the fault 0.999 and 0.999, of the same models' answers against the hour
after the window 0.669 and 0.573, which is what repeating the last hour gives; the twin reports 0.721 and 0.643.
"""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
WINDOW = 48
EPOCHS = 12


def simulate_load(hours, generator):
    t = torch.arange(hours, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * t / 24) + 0.4 * torch.sin(4 * math.pi * t / 24 + 0.7)
    noise = torch.randn(hours, generator=generator)
    wander = torch.zeros(hours)
    for i in range(1, hours):
        wander[i] = 0.7 * wander[i - 1] + 0.6 * noise[i]
    return 480 + 60 * daily + 60 * wander


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, window):
        states, _ = self.rnn(window.unsqueeze(-1))
        return self.out(states[:, -1]).squeeze(-1)


def r2(predicted, true):
    return (1 - ((predicted - true) ** 2).sum() / ((true - true.mean()) ** 2).sum()).item()


def windows(series, starts, ahead):
    """(window, target) for each start; the target is `ahead` hours after the window's last hour."""
    x = torch.stack([series[s : s + WINDOW] for s in starts])
    y = torch.stack([series[s + WINDOW - 1 + ahead] for s in starts])
    return TensorDataset(x, y)


def build(seed, ahead):
    torch.manual_seed(seed)
    series = simulate_load(2000, torch.Generator().manual_seed(seed))
    train_end, val_start = 1450, 1500
    mean, std = series[:train_end].mean(), series[:train_end].std()
    series = (series - mean) / std
    train_starts = range(0, train_end - WINDOW - 1)
    val_starts = range(val_start, len(series) - WINDOW - 1)
    model = Forecaster()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(windows(series, train_starts, ahead), batch_size=64, shuffle=True),
        val_loader=DataLoader(windows(series, val_starts, ahead), batch_size=256),
        metric=r2,
    )
    spec = Spec(
        task="regression",
        epochs=EPOCHS,
        train_times=[float(s) for s in train_starts],
        val_times=[float(s) for s in val_starts],
    )
    return program, spec


def make(seed):
    return build(seed, ahead=0)


def twin(seed):
    return build(seed, ahead=1)
