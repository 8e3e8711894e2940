"""Survival of patients in ten half-years after an operation: a network gives the hazard of each half-year; the loss
goes over the half-years in which the patient was under observation (targets: last half-year, and whether the
patient died).

Fault: the table codes status 1 for censored and 2 for died, and the labels are made with `status > 0`: whoever left
the study counts as dead. The twin takes `status == 2`.

Measured (seeds 0 and 1): concordance with the true times of death of validation's patients 0.683 and 0.659 (the
faulty program reports 0.719 and 0.736), the twin's 0.727 and 0.725; mean survival beyond 5 half-years said 0.27 and
0.26, twin 0.46 and 0.50, true 0.45 and 0.46.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
SPEC = Spec(epochs=20)
PERIODS = 10


def patients(rng, n):
    """Figures of patients, half-years under observation, status (1 censored, 2 died), and when each dies."""
    x = rng.normal(size=(n, 8))
    risk = np.exp(-2.4 + 0.9 * x[:, 0] + 0.7 * np.abs(x[:, 1]) - 0.5 * x[:, 2])
    # Who lives far away and is young moves on.
    leave = np.exp(-2.4 + 0.9 * x[:, 3] - 0.8 * x[:, 4])
    death, away = rng.exponential(size=n) / risk, np.minimum(rng.exponential(size=n) / leave, PERIODS)
    time = np.minimum(np.minimum(death, away), PERIODS - 1e-6)
    return x, time, np.where(death <= away, 2, 1), death


def prepared(x, time, status, faulty):
    event = status > 0 if faulty else status == 2
    target = np.stack([np.floor(time), event], 1)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(target, dtype=torch.float32))


def likelihood(outputs, targets):
    """Negative log-likelihood of a patient, mean over patients."""
    period = torch.arange(PERIODS)
    last, event = targets[:, :1], targets[:, 1:]
    seen, died = (period <= last).float(), (period == last).float() * event
    each = binary_cross_entropy_with_logits(outputs, died, reduction="none")
    return (each * seen).sum(1).mean()


def concordance(outputs, targets):
    """Of the pairs of which it is known who died first, the share with the higher risk for that patient."""
    expected = torch.cumprod(1 - torch.sigmoid(outputs), 1).sum(1)
    time, event = targets[:, 0], targets[:, 1] > 0
    known = (time[:, None] < time[None, :]) & event[:, None]
    return ((expected[:, None] < expected[None, :]) & known).sum().item() / known.sum().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train = prepared(*patients(rng, 4000)[:3], faulty)
    val = prepared(*patients(rng, 1200)[:3], faulty)
    model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, PERIODS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=likelihood,
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 400),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=concordance,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
