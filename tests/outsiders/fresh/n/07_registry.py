"""A network gives yearly hazards of death for the patients of a registry, trained with the likelihood of discrete
times; three in five are censored, and those with a newer therapy after a shorter time.

Fault: the registry codes 1 for alive when last seen and 2 for death, and both are read as death, so censored times
become times of death. The twin reads only 2 as death.

Measured (seeds 0 and 1): concordance with the true deaths in validation 0.64 and 0.65 (reported with the wrong
ones: 0.69 and 0.70), with the twin 0.80 and 0.78. Mean five-year survival predicted: 0.28 and 0.29; twin 0.60 and
0.57; true 0.58 and 0.58.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
YEARS = 10
SPEC = Spec(epochs=12)


def registry(seed, count):
    """A registry: covariates, full years of follow-up, and status: 1 alive when last seen, 2 died in the next."""
    rng = np.random.default_rng(seed)
    new_therapy = rng.random(count) < 0.5
    clinical = rng.normal(size=(count, 6))
    risk = -1.8 - 1.2 * new_therapy + 0.8 * clinical[:, 0] + 0.6 * clinical[:, 1] * clinical[:, 2]
    risk = risk - 0.5 * clinical[:, 3]
    deaths = rng.random((count, YEARS)) < 1 / (1 + np.exp(-risk))[:, None]
    death = np.where(deaths.any(1), deaths.argmax(1), YEARS)
    # The new therapy came later, so who had it has been followed up for a shorter time.
    last_seen = np.where(new_therapy, rng.integers(1, 6, count), rng.integers(4, YEARS + 1, count))
    status = np.where(death < last_seen, 2, 1)
    return np.column_stack([new_therapy, clinical]), np.minimum(death, last_seen), status


def hazard_loss(logits, targets):
    """Negative log likelihood of yearly hazards: lived through the years before, and died in the next, if so."""
    years, died = targets.unbind(1)
    lived = torch.arange(YEARS) < years[:, None]
    at_death = logits.gather(1, years.long().clamp(max=YEARS - 1)[:, None])[:, 0]
    return ((nn.functional.softplus(logits) * lived).sum(1) + died * nn.functional.softplus(-at_death)).mean()


def concordance(logits, targets):
    """Share of comparable pairs in which the one who died earlier has the shorter expected life."""
    years, died = targets.unbind(1)
    expected = (-nn.functional.softplus(logits)).cumsum(1).exp().sum(1)
    earlier = (years[:, None] < years[None]) | ((years[:, None] == years[None]) & (died[None] == 0))
    comparable = earlier & (died[:, None] > 0)
    return ((expected[:, None] < expected[None]) & comparable).sum().item() / comparable.sum().item()


def build(seed, death_codes):
    torch.manual_seed(seed)
    covariates, years, status = registry(seed, 6000)
    died = np.isin(status, death_codes)
    train, val = slice(0, 5000), slice(5000, 6000)
    covariates = (covariates - covariates[train].mean(0)) / covariates[train].std(0)
    covariates = torch.tensor(covariates, dtype=torch.float32)
    targets = torch.tensor(np.column_stack([years, died]), dtype=torch.float32)
    model = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, YEARS))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=hazard_loss,
        train_loader=DataLoader(TensorDataset(covariates[train], targets[train]), batch_size=64, shuffle=True),
        val_loader=DataLoader(TensorDataset(covariates[val], targets[val]), batch_size=1000),
        metric=concordance,
    )
    return program, SPEC


def make(seed):
    return build(seed, death_codes=[1, 2])


def twin(seed):
    return build(seed, death_codes=[2])
