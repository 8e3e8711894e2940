"""Rents from a table: seven numbers and the street, encoded by the mean rent of the street; a small MLP.

Fault: each flat of the training table gets the mean rent of its street, its own rent included. With three flats
to a street a third of that number is the label itself, so the network relies on it far more than it can
afterwards, when the flat is a new one. It comes about with `table.groupby("street").rent.transform("mean")`; the
split is clean and validation uses the means of training only, so the code passes a check for leaks between the
two.

Measured (seeds 0 and 1): validation R2 0.27 and 0.33 after 20 epochs; twin 0.45 and 0.47.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)

STREETS, NUMBERS = 500, 7


def flats(count: int, level: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers, street and (standardised) rent of each flat; the street's level is a small part of the rent."""
    numbers = torch.randn(count, NUMBERS, generator=generator)
    street = torch.randint(STREETS, (count,), generator=generator)
    rent = 0.6 * numbers[:, 0] + 0.4 * numbers[:, 1] * numbers[:, 2] + 0.3 * numbers[:, 3].abs() - 0.2 * numbers[:, 4]
    rent = rent + 0.3 * level[street] + 0.7 * torch.randn(count, generator=generator)
    return numbers, street, rent


def street_sums(street: Tensor, rent: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the rents and number of flats for each street."""
    total = torch.zeros(STREETS).index_add_(0, street, rent)
    return total, torch.bincount(street, minlength=STREETS).float()


def encode_training(street: Tensor, rent: Tensor, own_rent: bool) -> Tensor:
    """Mean rent of the street of each training flat, over all its flats or over the others."""
    total, count = street_sums(street, rent)
    total, count = total[street], count[street]
    if not own_rent:
        total, count = total - rent, count - 1
    return torch.where(count > 0, total / count.clamp(min=1), rent.mean())


def encode_new(street: Tensor, train_street: Tensor, train_rent: Tensor) -> Tensor:
    """Mean rent, in the training table, of the street of each new flat."""
    total, count = street_sums(train_street, train_rent)
    return torch.where(count > 0, total / count.clamp(min=1), train_rent.mean())[street]


def r_squared(prediction: Tensor, rent: Tensor) -> float:
    """Share of the variance explained."""
    return (1 - (prediction - rent).square().mean() / rent.var(unbiased=False)).item()


def build(seed: int, own_rent: bool) -> tuple[Program, Spec]:
    """The program, with a flat's own rent in its street's mean or without."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    level = torch.randn(STREETS, generator=generator)
    numbers, street, rent = flats(1500, level, generator)
    val_numbers, val_street, val_rent = flats(800, level, generator)
    train_x = torch.cat([numbers, encode_training(street, rent, own_rent)[:, None]], 1)
    val_x = torch.cat([val_numbers, encode_new(val_street, street, rent)[:, None]], 1)

    model = nn.Sequential(
        nn.Linear(NUMBERS + 1, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1), nn.Flatten(0)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(TensorDataset(train_x, rent), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val_x, val_rent), 200),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=20)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, own_rent=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the mean over the street's other flats."""
    return build(seed, own_rent=False)
