"""A rare event from a table, with new positives interpolated between neighbours (as SMOTE does).

Fault: the table is oversampled first and split afterwards. Rows of validation then lie between rows of training (and
the other way round), and half of validation is made up. Nothing crashes, and validation looks splendid; on fresh rows
the same model is poor.

F1 after 10 epochs (seeds 0, 1): twin 0.51, 0.58 in validation and 0.56, 0.61 on fresh rows; faulty 0.92, 0.95 in
validation and 0.54, 0.60 on fresh rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
COLUMNS = 12


def table(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and whether the event came: about one in ten, and not easily told."""
    x = rng.normal(size=(rows, COLUMNS))
    y = (x[:, 0] + x[:, 1] - x[:, 2] + 1.0 * rng.normal(size=rows) > 2.6).astype(int)
    return x, y


def oversample(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As many positives as negatives: each new one lies between a positive and one of its three nearest."""
    rare = x[y == 1]
    apart = ((rare[:, None] - rare[None]) ** 2).sum(-1)
    near = apart.argsort(1)[:, 1:4]
    count = int((y == 0).sum() - len(rare))
    one = rng.integers(len(rare), size=count)
    other = near[one, rng.integers(3, size=count)]
    new = rare[one] + rng.random((count, 1)) * (rare[other] - rare[one])
    return np.concatenate([x, new]), np.concatenate([y, np.ones(count, dtype=int)])


def split(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[tuple, tuple]:
    """Three quarters and one."""
    order = rng.permutation(len(x))
    cut = len(x) * 3 // 4
    return (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])


def dataset(x: np.ndarray, y: np.ndarray) -> TensorDataset:
    """As tensors."""
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None])


def f1(outputs: Tensor, targets: Tensor) -> float:
    """F1 of the event."""
    guess, event = outputs > 0, targets > 0.5
    return float(2 * (guess & event).sum() / (guess.sum() + event.sum()).clamp_min(1))


def build(seed: int, split_first: bool) -> tuple[Program, Spec]:
    """The program."""
    rng = np.random.default_rng(seed)
    x, y = table(rng, 1600)
    if split_first:
        train, val = split(x, y, rng)
        train = oversample(*train, rng)
    else:
        train, val = split(*oversample(x, y, rng), rng)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(COLUMNS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01),
        loss_fn=F.binary_cross_entropy_with_logits,
        train_loader=DataLoader(dataset(*train), batch_size=64, shuffle=True),
        val_loader=DataLoader(dataset(*val), batch_size=200),
        metric=f1,
    )
    return program, Spec(task="multi-label", classes=1, epochs=10, shift_expected=True)


def honest(program: Program, seed: int) -> float:
    """F1 on fresh rows."""
    x, y = dataset(*table(np.random.default_rng(seed + 1000), 2000)).tensors
    program.model.eval()
    with torch.no_grad():
        return f1(program.model(x), y)


def make(seed: int) -> tuple[Program, Spec]:
    """Oversampled, then split."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Split, then oversampled in training only."""
    return build(seed, True)
