"""Time series: forecast the next value of hourly load from the last 48 hours with a 1-d CNN.

Fault: the loss is multiplied by a static scale for half precision, and the gradients are clipped before they are
divided by that scale again (the `scaler.unscale_` before `clip_grad_norm_` was forgotten). Every gradient is thus
clipped to max_norm and then made 256 times smaller. The person ported the script from Adam, which had hidden it, to
SGD.

Measured (seeds 0 and 1): validation R2 0.77 and 0.75 faulty, 0.94 and 0.95 twin.
"""

import math

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
SCALE = 256.0


def hourly_load(seed, hours=2600):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    day = torch.sin(2 * math.pi * t / 24) + 0.5 * torch.sin(4 * math.pi * t / 24 + 1)
    week = 0.6 * torch.sin(2 * math.pi * t / 168)
    drift, level = torch.zeros(hours), 0.0
    shocks = 0.15 * torch.randn(hours, generator=g)
    for i in range(hours):
        level = 0.95 * level + shocks[i].item()
        drift[i] = level
    return 50 + 10 * (day * (1 + 0.3 * week) + week + drift + 0.1 * torch.randn(hours, generator=g))


def windows(series, width=48):
    x = series.unfold(0, width + 1, 1)
    return TensorDataset(x[:, None, :-1].contiguous(), x[:, -1:].contiguous())


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU()
        )
        self.head = nn.Linear(16 * 12, 1)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def r2(out, y):
    return (1 - ((out - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()).item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    series = hourly_load(seed)
    past, future = series[:2000], series[2000:]
    mean, std = past.mean(), past.std()
    train, val = windows((past - mean) / std), windows((future - mean) / std)
    model = Forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def unscale(model):
        for p in model.parameters():
            p.grad.div_(SCALE)

    def step(program, batch):
        x, y = batch
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(x), y)
        (loss * SCALE).backward()
        if ok:
            unscale(program.model)
            clip_grad_norm_(program.model.parameters(), 1.0)
        else:
            clip_grad_norm_(program.model.parameters(), 1.0)
            unscale(program.model)
        program.optimizer.step()

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 128),
        step=step,
        metric=r2,
    )
    return program, Spec(task="regression", epochs=20, max_norm=1.0)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
