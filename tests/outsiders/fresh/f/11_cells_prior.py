"""Detecting cells in 48 by 48 microscope pictures: a score for each place of a 12 by 12 grid, focal loss.

Fault: the bias of the score layer is to make the network start out believing that one place in a hundred holds a
cell, but it is set to +log((1 - p) / p) instead of minus that, so that it starts out sure of a cell everywhere.
The loss is huge at first and falls impressively; what was learned meanwhile is mainly to say no. The formula of
the RetinaNet paper stands in many repositories, with the minus in front of the call where it is easily lost.

Measured (seeds 0 and 1): average precision 0.24 and 0.27 after 15 epochs, loss down from above 100 to 0.48 and
0.43; twin 0.98 and 0.98, loss 0.05.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)

SIZE, STRIDE, CELLS, PRIOR = 48, 4, 3, 0.01


def pictures(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures with rings (cells) and discs (debris) in noise, and a grid with 1 where the middle of a cell lies."""
    row, column = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    picture = 0.4 * torch.randn(count, SIZE, SIZE, generator=generator)
    grid = torch.zeros(count, SIZE // STRIDE, SIZE // STRIDE)
    for number in range(2 * CELLS):
        is_cell = number < CELLS
        middle = 4 + (SIZE - 8) * torch.rand(count, 2, 1, 1, generator=generator)
        distance = ((row - middle[:, 0]).square() + (column - middle[:, 1]).square()).sqrt()
        shape = (distance - 3).abs() < 1 if is_cell else distance < 2.5
        picture = picture + shape.float()
        if is_cell:
            place = (middle[:, :, 0, 0] / STRIDE).long()
            grid[torch.arange(count), place[:, 0], place[:, 1]] = 1
    return picture[:, None], grid


def focal_loss(scores: Tensor, grid: Tensor) -> Tensor:
    """Focal loss (gamma 2, alpha 0.25), for each cell."""
    probability = scores.sigmoid()
    right = torch.where(grid > 0, probability, 1 - probability)
    weight = torch.where(grid > 0, 0.25, 0.75) * (1 - right).square()
    entropy = F.binary_cross_entropy_with_logits(scores, grid, reduction="none")
    return (weight * entropy).sum() / grid.sum().clamp(min=1)


def average_precision(scores: Tensor, grid: Tensor) -> float:
    """Average precision over the places of all pictures."""
    hit = grid.flatten()[scores.flatten().argsort(descending=True)]
    precision = hit.cumsum(0) / torch.arange(1, len(hit) + 1)
    return ((precision * hit).sum() / hit.sum()).item()


def build(seed: int, sign: int) -> tuple[Program, Spec]:
    """The program, with this sign before the bias."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = TensorDataset(*pictures(320, generator))
    val = TensorDataset(*pictures(160, generator))

    score = nn.Conv2d(24, 1, 3, padding=1)
    nn.init.normal_(score.weight, std=0.01)
    nn.init.constant_(score.bias, sign * math.log((1 - PRIOR) / PRIOR))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2, padding=2),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        score,
        nn.Flatten(1, 2),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=focal_loss,
        train_loader=DataLoader(train, 16, shuffle=True, generator=generator),
        val_loader=DataLoader(val, 80),
        metric=average_precision,
    )
    return program, Spec(task="multi-label", epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, sign=1)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the minus."""
    return build(seed, sign=-1)
