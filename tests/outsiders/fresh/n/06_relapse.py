"""A network ranks patients by their hazard of a relapse, trained with Cox's partial likelihood within each batch; some
patients are censored.

Fault: the batch is sorted by ascending time before the cumulative sum, so the risk set of a relapse holds those who
left earlier rather than those who were still at risk. The twin sorts by descending time.

Measured (seeds 0 and 1): concordance in validation 0.29 and 0.29, with the twin 0.77 and 0.76 (guessing: 0.5). The
loss falls in both.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
SPEC = Spec(epochs=20, couples_samples=True)


def patients(seed, count):
    """Findings of each patient, the months until relapse or the end of follow-up, and whether there was a relapse."""
    rng = np.random.default_rng(seed)
    findings = rng.normal(size=(count, 10)) * rng.uniform(0.5, 20, 10) + rng.uniform(-5, 50, 10)
    z = (findings - findings.mean(0)) / findings.std(0)
    risk = 0.9 * z[:, 0] - 0.7 * z[:, 1] + 0.6 * z[:, 2] * z[:, 3] + 0.5 * np.abs(z[:, 4])
    relapse = rng.exponential(24 * np.exp(-risk))
    leaves = rng.uniform(6, 60, count)
    return findings, np.stack([np.minimum(relapse, leaves), relapse <= leaves], 1)


class PartialLikelihood(nn.Module):
    """Cox's negative log partial likelihood of a batch: each relapse against all who were still at risk."""

    def __init__(self, descending):
        super().__init__()
        self.descending = descending

    def forward(self, log_hazard, targets):
        months, relapsed = targets.unbind(1)
        order = torch.argsort(months, descending=self.descending)
        log_hazard, relapsed = log_hazard[order, 0], relapsed[order]
        at_risk = torch.logcumsumexp(log_hazard, 0)
        return -((log_hazard - at_risk) * relapsed).sum() / relapsed.sum().clamp(min=1)


def concordance(outputs, targets):
    """Share of comparable pairs in which the one who relapsed earlier has the higher hazard."""
    months, relapsed = targets.unbind(1)
    comparable = (months[:, None] < months[None]) & (relapsed[:, None] > 0)
    difference = outputs - outputs.T
    agree = (difference > 0).float() + 0.5 * (difference == 0).float()
    return (agree * comparable).sum().item() / comparable.sum().item()


def build(seed, descending):
    torch.manual_seed(seed)
    findings, targets = patients(seed, 5000)
    train, val = slice(0, 4000), slice(4000, 5000)
    findings = (findings - findings[train].mean(0)) / findings[train].std(0)
    findings, targets = torch.tensor(findings, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        loss_fn=PartialLikelihood(descending),
        train_loader=DataLoader(TensorDataset(findings[train], targets[train]), batch_size=80, shuffle=True),
        val_loader=DataLoader(TensorDataset(findings[val], targets[val]), batch_size=1000),
        metric=concordance,
    )
    return program, SPEC


def make(seed):
    return build(seed, descending=False)


def twin(seed):
    return build(seed, descending=True)
