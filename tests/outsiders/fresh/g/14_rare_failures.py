"""Find the rare machines that will fail (about 6 in 100) from 20 readings with an MLP; oversamples failures.

Fault: the failures are repeated until the classes are even, and only then is the data split at random, so copies of the
same machine lie in training and validation. The network learns the copied failures by heart and is rewarded for it: the
reported balanced accuracy is far too good. The repaired program splits first and oversamples the training part only.

Measured (seeds 0 and 1): reported balanced accuracy 0.937 and 0.963 faulty, 0.834 and 0.790 repaired. The reported
number is too good (a leak): on 3000 new machines the faulty program's network has 0.856 and 0.794.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
EPOCHS = 12
Split = tuple[np.ndarray, np.ndarray]


def _machines(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(3000, 20))
    score = 1.1 * x[:, :6].sum(1) + x[:, 6] * x[:, 7] - 5.0
    return x.astype(np.float32), (rng.random(3000) < 1 / (1 + np.exp(-score))).astype(np.int64)


def _oversampled(rows: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows with failures repeated until there are as many as of the others."""
    failures, others = rows[y[rows] == 1], rows[y[rows] == 0]
    return np.concatenate([others, failures, rng.choice(failures, len(others) - len(failures))])


def _oversample_split(y: np.ndarray, rng: np.random.Generator, seed: int) -> Split:
    rows = _oversampled(np.arange(len(y)), y, rng)
    train, val = train_test_split(rows, test_size=0.25, random_state=seed, stratify=y[rows])
    return train, val


def _split_oversample(y: np.ndarray, rng: np.random.Generator, seed: int) -> Split:
    train, val = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    return _oversampled(train, y, rng), val


def _balanced_accuracy(outputs: Tensor, targets: Tensor) -> float:
    right = (outputs.argmax(1) == targets).float()
    return float((right[targets == 0].mean() + right[targets == 1].mean()) / 2)


def _build(seed: int, split: Callable[[np.ndarray, np.random.Generator, int], Split]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x, y = _machines(rng)
    train, val = split(y, rng, seed)
    mean, std = x[train].mean(0), x[train].std(0)

    def tensors(rows: np.ndarray) -> TensorDataset:
        return TensorDataset(torch.from_numpy((x[rows] - mean) / std), torch.from_numpy(y[rows]))

    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(tensors(train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(tensors(val), 256),
        metric=_balanced_accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _oversample_split)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _split_oversample)
