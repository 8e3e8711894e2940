"""Predict eight independent, mostly rare tags of items from 30 features with an MLP; reports macro F1.

Fault: the metric thresholds at 0.5, but the model gives logits (the loss is `BCEWithLogitsLoss`), so that a tag counts
only from a probability of 0.62. It was right as long as the model ended in a sigmoid, and was forgotten when that moved
into the loss. Training is sound; recall and F1 are reported too low, most for the rare tags.

Measured (seeds 0 and 1): reported macro F1 0.583 and 0.534 faulty, 0.643 and 0.619 repaired, for the very same weights
and validation loss (0.405 and 0.414): the reported number is too low.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS = 15
TAGS = 8


def _macro_f1(predicted: Tensor, targets: Tensor) -> float:
    hits = (predicted * targets).sum(0)
    return float((2 * hits / (predicted.sum(0) + targets.sum(0)).clamp(min=1)).mean())


def _f1_faulty(outputs: Tensor, targets: Tensor) -> float:
    return _macro_f1((outputs > 0.5).float(), targets)


def _f1_right(outputs: Tensor, targets: Tensor) -> float:
    return _macro_f1((torch.sigmoid(outputs) > 0.5).float(), targets)


def _build(seed: int, metric: Callable[[Tensor, Tensor], float]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(5000, 30, generator=generator)
    mixed = torch.randn(30, TAGS, generator=generator) / 30**0.5
    scores = 2.2 * x @ mixed + 0.8 * (x[:, :TAGS] * x[:, TAGS : 2 * TAGS]) - 1.6
    y = torch.bernoulli(torch.sigmoid(scores), generator=generator)
    model = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, TAGS))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(
            TensorDataset(x[:4000], y[:4000]), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(x[4000:], y[4000:]), 250),
        metric=metric,
    )
    return program, Spec(task="multi-label", classes=TAGS, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _f1_faulty)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _f1_right)
