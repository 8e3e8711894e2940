"""Survival: a small network gives each patient's log hazard, trained by Cox's partial likelihood within the batch.

Fault: the loss sorts by falling time so that a running log-sum-exp is the risk set, and permutes the risks with it,
but not the event flags. Whether a row counts as a death is thus taken from another patient. Here censoring depends on
other covariates than death does, so the network learns in part who leaves the study.

Measured, concordance of the risk with the times of death on validation (higher is better), faulty / twin: seed 0:
0.671 / 0.785; seed 1: 0.663 / 0.805.
"""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)


def patients(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Covariates, and (time, whether it is a death) for each patient."""
    x = torch.randn(count, 10, generator=generator)
    death = (1.1 * x[:, 0] + 0.8 * x[:, 1] * x[:, 2] - 0.7 * x[:, 3]).exp() * 0.5
    leave = (1.6 * x[:, 4] + 1.2 * x[:, 5] - 0.9 * x[:, 0]).exp()
    times = [-torch.rand(count, generator=generator).clamp_min(1e-6).log() / hazard for hazard in (death, leave)]
    event = times[0] <= times[1]
    return x, torch.stack([torch.minimum(*times), event.float()], 1)


def concordance(risk: Tensor, outcome: Tensor) -> float:
    """Share of the comparable pairs in which who dies first has the higher risk."""
    time, event = outcome.T
    risk = risk.flatten()
    comparable = (time[:, None] < time[None]) & (event[:, None] > 0)
    right = (risk[:, None] > risk[None]).float() + 0.5 * (risk[:, None] == risk[None]).float()
    return float(right[comparable].mean())


def cox_loss(risk: Tensor, outcome: Tensor) -> Tensor:
    time, event = outcome.T
    order = time.argsort(descending=True)
    risk, event = risk.flatten()[order], event[order]
    at_risk = torch.logcumsumexp(risk, 0)
    return -((risk - at_risk) * event).sum() / event.sum().clamp_min(1)


def cox_loss_unsorted_events(risk: Tensor, outcome: Tensor) -> Tensor:
    time, event = outcome.T
    order = time.argsort(descending=True)
    risk = risk.flatten()[order]
    at_risk = torch.logcumsumexp(risk, 0)
    return -((risk - at_risk) * event).sum() / event.sum().clamp_min(1)


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(60 + seed)
    train, val = patients(3000, generator), patients(1000, generator)
    model = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Dropout(0.1), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        optimizer,
        cox_loss if ok else cox_loss_unsorted_events,
        train_loader=DataLoader(TensorDataset(*train), batch_size=100, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(*val), batch_size=100),
        metric=concordance,
    )
    return program, Spec(epochs=20, couples_samples=True)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
