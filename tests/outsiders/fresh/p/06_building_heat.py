"""The heating power of buildings from hourly readings. Six buildings are in training, two others, in a colder place
and larger, in validation.

Fault: training and validation are each standardised with their own mean and spread, so that the colder place and
the larger flow of the validation buildings vanish. The twin scales both by training's figures.

Measured (seeds 0 and 1): validation R2 -1.08 and -0.85, the twin's 0.99 and 0.99; in training both have 0.99.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
HOURS = 800
# Mean outdoor temperature and mean flow of each building; the last two are for validation.
CLIMATE = [14.0, 9.0, 4.0, -1.0, -3.0, 11.0, 0.0, 1.0]
FLOW = [1.0, 2.5, 1.6, 3.2, 1.2, 2.0, 2.6, 2.9]
SPEC = Spec(
    task="regression",
    epochs=20,
    train_groups=tuple(np.repeat(np.arange(6), HOURS).tolist()),
    val_groups=tuple(np.repeat(np.arange(6, 8), HOURS).tolist()),
    shift_expected=True,
)


def readings(rng, building):
    """Readings of one building (outdoor, flow, sun, wind, people, hour as sine and cosine) and its power in kW."""
    hour = rng.integers(0, 24, HOURS)
    angle = 2 * np.pi * hour / 24
    outdoor = CLIMATE[building] - 3 * np.cos(angle) + rng.normal(size=HOURS) * 4
    flow = FLOW[building] * np.exp(rng.normal(size=HOURS) * 0.2)
    sun = np.maximum(0, -np.cos(angle)) * rng.uniform(0, 800, HOURS)
    wind, people = rng.gamma(2, 2, HOURS), rng.poisson(20, HOURS) * ((hour > 7) & (hour < 19))
    loss = np.maximum(0, 19 - outdoor) * (1 + 0.03 * wind)
    power = flow * loss - 0.01 * sun - 0.15 * people + rng.normal(size=HOURS) * 2
    return np.stack([outdoor, flow, sun, wind, people, np.sin(angle), np.cos(angle)], 1), power


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x_train, y_train = (np.concatenate(part) for part in zip(*(readings(rng, b) for b in range(6)), strict=False))
    x_val, y_val = (np.concatenate(part) for part in zip(*(readings(rng, b) for b in (6, 7)), strict=False))

    def dataset(x, y):
        reference = x if faulty else x_train
        x = (x - reference.mean(0)) / reference.std(0)
        y = (y - y_train.mean()) / y_train.std()
        return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y[:, None], dtype=torch.float32))

    model = nn.Sequential(nn.Linear(7, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    stream = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(dataset(x_train, y_train), 64, shuffle=True, generator=stream),
        val_loader=DataLoader(dataset(x_val, y_val), 400),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=lambda outputs, targets: 1 - ((outputs - targets) ** 2).mean().item() / targets.var().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
