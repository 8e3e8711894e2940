"""Whether a customer leaves (yes or no), from a table with a column of many towns, which is target-encoded.

Fault: in training, each town's mean target is taken over all training rows, the row's own target among them. Most
towns have only two or three rows, so the column nearly gives the answer away in training and says little in validation
(which is encoded by training's means, as is right). Nothing crashes and nothing of validation leaks; the network leans
on the column and hardly looks at the others.

Validation accuracy after 15 epochs (seeds 0, 1): twin 0.88, 0.89; faulty 0.81, 0.82 (loss 0.26, 0.25 against 0.51,
0.45).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
ROWS, CUT, TOWNS, FOLDS, NUMBERS = 3000, 2000, 900, 5, 6


def means(towns: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The mean target of each town, and of all where a town has no rows."""
    rows = np.bincount(towns, minlength=TOWNS)
    sums = np.bincount(towns, weights=y, minlength=TOWNS)
    return np.where(rows > 0, sums / np.maximum(rows, 1), y.mean())


def encode_training(towns: np.ndarray, y: np.ndarray, rng: np.random.Generator, out_of_fold: bool) -> np.ndarray:
    """The column of training."""
    if not out_of_fold:
        return means(towns, y)[towns]
    fold = rng.integers(FOLDS, size=len(y))
    column = np.empty(len(y))
    for number in range(FOLDS):
        column[fold == number] = means(towns[fold != number], y[fold != number])[towns[fold == number]]
    return column


def dataset(numbers: np.ndarray, column: np.ndarray, y: np.ndarray) -> TensorDataset:
    """As tensors."""
    x = np.concatenate([numbers, (column[:, None] - 0.5) * 2], 1)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None])


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Share of right answers."""
    return float(((outputs > 0) == (targets > 0.5)).float().mean())


def build(seed: int, out_of_fold: bool) -> tuple[Program, Spec]:
    """The program."""
    rng = np.random.default_rng(seed)
    towns = rng.integers(TOWNS, size=ROWS)
    numbers = rng.normal(size=(ROWS, NUMBERS))
    score = numbers[:, 0] - numbers[:, 1] + numbers[:, 2] * numbers[:, 3] + 0.3 * rng.normal(size=TOWNS)[towns]
    y = (score + 0.5 * rng.normal(size=ROWS) > 0).astype(float)
    column = encode_training(towns[:CUT], y[:CUT], rng, out_of_fold)
    val_column = means(towns[:CUT], y[:CUT])[towns[CUT:]]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(NUMBERS + 1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=F.binary_cross_entropy_with_logits,
        train_loader=DataLoader(dataset(numbers[:CUT], column, y[:CUT]), batch_size=50, shuffle=True),
        val_loader=DataLoader(dataset(numbers[CUT:], val_column, y[CUT:]), batch_size=200),
        metric=accuracy,
    )
    return program, Spec(task="multi-label", classes=1, epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """Each row's own target is in its column."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Each row is encoded by the other folds."""
    return build(seed, True)
