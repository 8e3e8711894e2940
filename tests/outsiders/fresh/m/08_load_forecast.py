"""Forecast of an hourly load: an MLP sees 48 standardised hours and gives the next 12; the split is in time order.

Fault: the loop that builds the MLP puts a ReLU after every linear layer, the last one included, so a forecast is never
below the series' mean. The twin takes the last ReLU off.

Measured (seeds 0 and 1): mean absolute error on the test weeks, in standard deviations, 0.69 and 0.49; the twin's 0.29
and 0.32.
"""

import itertools

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "layers"
PAST, AHEAD, HOURS = 48, 12, 24 * 90
SPEC = Spec(task="regression", epochs=15, scheduler_steps="epoch")


def series(seed):
    """Ninety days of load: rhythm of day and week, weather that wanders, noise."""
    rng = np.random.default_rng(seed)
    hours = np.arange(HOURS)
    weather = np.zeros(HOURS)
    for t in range(1, HOURS):
        weather[t] = 0.97 * weather[t - 1] + rng.normal(0, 2.0)
    day = 20 * np.sin(2 * np.pi * (hours - 7) / 24) + 7 * np.sin(4 * np.pi * (hours - 3) / 24)
    return 200 + day - 12 * (hours // 24 % 7 >= 5) + weather + rng.normal(0, 2.0, HOURS)


def mlp(sizes, end_linear):
    layers = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if end_linear else layers))


def windows(values, step):
    starts = range(0, len(values) - PAST - AHEAD + 1, step)
    past = np.stack([values[s : s + PAST] for s in starts])
    future = np.stack([values[s + PAST : s + PAST + AHEAD] for s in starts])
    return TensorDataset(torch.tensor(past, dtype=torch.float32), torch.tensor(future, dtype=torch.float32))


def minus_error(outputs, targets):
    return -(outputs - targets).abs().mean().item()


def build(seed, faulty):
    torch.manual_seed(seed)
    values = series(seed)
    cut_val, cut_test = int(HOURS * 0.7), int(HOURS * 0.85)
    mean, std = values[:cut_val].mean(), values[:cut_val].std()
    values = (values - mean) / std
    train = windows(values[:cut_val], 1)
    model = mlp([PAST, 96, 48, AHEAD], end_linear=not faulty)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(windows(values[cut_val:cut_test], 1), batch_size=64),
        test_loader=DataLoader(windows(values[cut_test:], 1), batch_size=64),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=SPEC.epochs, eta_min=1e-4),
        metric=minus_error,
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
