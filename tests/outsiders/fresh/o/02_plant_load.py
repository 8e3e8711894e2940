"""Forecast of an industrial plant's power draw: from the last 48 hours (hourly values), the hour of the week and six
slow readings (temperatures, tank levels, stocks) an MLP predicts by how much the mean of the next 24 hours departs
from the last 24. A window starts every hour.

Fault: the windows, which overlap by up to 47 hours, are dealt out to training and validation at random, so that each
validation window has neighbours in training with nearly the same inputs and target. The twin splits by time:
validation begins after the last training window's target has ended. The test windows are later than both in either
program.

Measured (seeds 0 and 1): R2 reported on validation 0.85 and 0.84, on the later test windows 0.59 and 0.66; the twin
reports 0.68 and 0.67, test 0.54 and 0.60.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "split"
HOURS, PAST, AHEAD, STRIDE = 9000, 48, 24, 1
SPEC = Spec(task="regression", epochs=16)  # build adds the windows' times


def power(rng):
    """Hourly draw in MW: a daily course, weekends, a level that drifts back to its mean, and noise."""
    t = np.arange(HOURS)
    level, shock = np.zeros(HOURS), rng.normal(0, 0.8, HOURS)
    for i in range(1, HOURS):
        level[i] = 0.97 * level[i - 1] + shock[i]
    daily = 6 * np.sin(2 * np.pi * t / 24) + 2 * np.sin(4 * np.pi * t / 24 + 1)
    weekly = np.where(t // 24 % 7 >= 5, -6, 0)
    return 60 + daily + weekly + level + rng.normal(0, 0.5, HOURS)


def slow_readings(rng):
    readings, shock = np.zeros((HOURS, 6)), rng.normal(0, 0.1, (HOURS, 6))
    for i in range(1, HOURS):
        readings[i] = 0.993 * readings[i - 1] + shock[i]
    return readings


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    draw, readings = power(rng), slow_readings(rng)
    starts = np.arange(0, HOURS - PAST - AHEAD, STRIDE)
    past = np.stack([draw[s : s + PAST] for s in starts])
    ahead = np.array([draw[s + PAST : s + PAST + AHEAD].mean() for s in starts])
    target = ahead - past[:, -24:].mean(1)
    hour = 2 * np.pi * (starts + PAST)[:, None] / np.array([24, 168, 84, 56])

    gap = (PAST + AHEAD) // STRIDE
    n = len(starts)
    test = np.arange(int(0.85 * n) + gap, n)
    if faulty:
        order = rng.permutation(int(0.85 * n))
        train, val = np.sort(order[: int(0.7 * n)]), np.sort(order[int(0.7 * n) :])
    else:
        train, val = np.arange(int(0.7 * n)), np.arange(int(0.7 * n) + gap, int(0.85 * n))

    mean, std = past[train].mean(), past[train].std()
    now = readings[starts + PAST - 1]
    now = (now - now[train].mean(0)) / now[train].std(0)
    inputs = np.column_stack([(past - mean) / std, now, np.sin(hour), np.cos(hour)])
    targets = ((target - target[train].mean()) / target[train].std())[:, None]
    inputs, targets = torch.tensor(inputs, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)
    data = {name: TensorDataset(inputs[i], targets[i]) for name, i in (("train", train), ("val", val), ("test", test))}

    model = nn.Sequential(
        nn.Linear(PAST + 14, 96),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(96, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 1),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            data["train"], batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(data["val"], batch_size=256),
        test_loader=DataLoader(data["test"], batch_size=256),
        metric=lambda outputs, targets: 1 - ((outputs - targets) ** 2).mean().item() / targets.var().item(),
    )
    return program, replace(SPEC, train_times=starts[train].tolist(), val_times=starts[val].tolist())


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
