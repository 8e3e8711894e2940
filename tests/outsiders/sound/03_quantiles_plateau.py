"""Prediction intervals of a skewed target: quantile regression of the 10 %, 50 % and 90 % quantiles.

Unusual: three outputs for one target, of which two are meant to lie far from it; the pinball loss compares a column
of targets with a row of quantiles (the broadcast is wanted). The outer quantiles are the median minus and plus a
softplus, so that they never cross. The noise grows with an input, so that the loss cannot get near zero. The schedule
waits for a plateau of the validation loss and may therefore not change the rate for many epochs; a third, untouched
set is kept for the test.

Metric: 1 - pinball loss / pinball loss of the three best constants (0 for a constant answer).
Measured after 30 epochs: seed 0: loss 0.1408, metric 0.4508; seed 1: loss 0.1496, metric 0.4154.
"""

import torch
from torch import nn
from torch.nn.functional import softplus
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

LEVELS = torch.tensor([0.1, 0.5, 0.9])


class Quantiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 3))

    def forward(self, x):
        median, below, above = self.body(x).unbind(1)
        return torch.stack([median - softplus(below), median, median + softplus(above)], 1)


def simulate(count, generator):
    x = torch.rand(count, 5, generator=generator) * 2 - 1
    noise = torch.empty(count).exponential_(1.0, generator=generator) - 0.7
    y = torch.sin(3 * x[:, 0]) + x[:, 1] ** 2 + (0.6 + 0.5 * x[:, 2]) * noise
    return TensorDataset(x, y)


def loss_fn(quantiles, y):
    error = y[:, None] - quantiles
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean()


def metric(quantiles, y):
    constant = torch.quantile(y, LEVELS).expand(len(y), 3)
    return 1 - (loss_fn(quantiles, y) / loss_fn(constant, y)).item()


def train_epoch(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step(program.run_evaluation()["loss"])


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(300 + seed)
    train, val, test = simulate(2000, generator), simulate(500, generator), simulate(500, generator)
    model = Quantiles()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 250),
        test_loader=DataLoader(test, 250),
        scheduler=ReduceLROnPlateau(optimizer, factor=0.3, patience=3),
        train_epoch=train_epoch,
        metric=metric,
    )
    return program, Spec(task="regression", epochs=30, scheduler_steps="epoch")
