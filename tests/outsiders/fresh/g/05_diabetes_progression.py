"""Regress the progression of diabetes on ten measurements with a small MLP (scikit-learn's diabetes data).

Fault: the outputs have shape (batch, 1) and the targets (batch,), and the loss is written by hand, so `outputs -
targets` broadcasts to (batch, batch) without a warning. Every output is compared with every target, and the best that
the network can do is to give the mean for all. The metric flattens both and is right.

Measured (seeds 0 and 1): validation R2 0.027 and 0.005 faulty, 0.339 and 0.383 repaired; the standard deviation of the
validation outputs in seed 0 is 0.03 against 0.69.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS = 60


def _loss_faulty(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets) ** 2).mean()


def _loss_right(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs.squeeze(1) - targets) ** 2).mean()


def _r2(outputs: Tensor, targets: Tensor) -> float:
    outputs, targets = outputs.flatten(), targets.flatten()
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def _build(seed: int, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    features, progression = load_diabetes(return_X_y=True)
    x, x_val, y, y_val = train_test_split(features, progression, test_size=0.25, random_state=seed)
    scaler = StandardScaler().fit(x)
    mean, std = y.mean(), y.std()

    def tensors(inputs: object, targets: object) -> TensorDataset:
        scaled = torch.tensor(scaler.transform(inputs), dtype=torch.float32)
        return TensorDataset(scaled, torch.tensor((targets - mean) / std, dtype=torch.float32))

    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        loss_fn=loss_fn,
        train_loader=DataLoader(
            tensors(x, y), 32, shuffle=True, generator=torch.Generator().manual_seed(seed), drop_last=True
        ),
        val_loader=DataLoader(tensors(x_val, y_val), 64),
        metric=_r2,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _loss_faulty)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _loss_right)
