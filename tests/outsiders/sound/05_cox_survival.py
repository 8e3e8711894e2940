"""Time to failure with censoring: a Cox model with a neural log hazard.

Unusual: the loss (Breslow's partial likelihood) compares each failure with all examples of the batch that were still
at risk; one example alone has no loss, and the loss grows with the logarithm of the batch size, so that its values
are comparable only between batches of one size. The target has two columns (time, whether the failure was seen), the
output is one log hazard that is known only up to a constant: the last layer has no bias. Nothing predicts a time.
About a quarter of the times are censored on purpose.

Metric: Harrell's concordance (0.5 for a constant answer).
Measured after 40 epochs: seed 0: loss 3.403, metric 0.8145; seed 1: loss 3.339, metric 0.8424.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec


def simulate(count, generator):
    x = torch.randn(count, 8, generator=generator)
    log_hazard = 1.2 * x[:, 0] - 0.9 * x[:, 1] + 0.8 * x[:, 2] ** 2 - 0.7 * x[:, 3] * x[:, 4]
    failure = torch.empty(count).exponential_(1.0, generator=generator) * (-log_hazard).exp()
    censoring = torch.empty(count).exponential_(0.4, generator=generator)
    targets = torch.stack([torch.minimum(failure, censoring), (failure <= censoring).float()], 1)
    return TensorDataset(x, targets)


def loss_fn(log_hazard, targets):
    time, seen = targets.unbind(1)
    order = time.argsort(descending=True)
    log_hazard, seen = log_hazard[order, 0], seen[order]
    at_risk = torch.logcumsumexp(log_hazard, 0)
    return ((at_risk - log_hazard) * seen).sum() / seen.sum().clamp(min=1)


def metric(log_hazard, targets):
    time, seen = targets.unbind(1)
    risk = log_hazard[:, 0]
    comparable = (time[:, None] < time[None, :]) & (seen[:, None] > 0)
    difference = risk[:, None] - risk[None, :]
    right = (difference > 0).float() + 0.5 * (difference == 0).float()
    return right[comparable].mean().item()


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(500 + seed)
    train, val = simulate(1280, generator), simulate(384, generator)
    model = nn.Sequential(
        nn.Linear(8, 32), nn.SiLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1, bias=False)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 128, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 128),
        metric=metric,
    )
    return program, Spec(epochs=40, couples_samples=True)
