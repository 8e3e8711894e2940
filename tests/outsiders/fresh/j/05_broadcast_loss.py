"""Progression of diabetes from ten measurements, with the author's own robust loss.

The columns and the target of scikit-learn's diabetes data are standardised with the training rows' statistics; a small
network is trained with log-cosh, and validation reports R2.

Fault: the network gives (N, 1) and the targets are (N,), so their difference broadcasts to (N, N): every prediction is
pulled to all targets of the batch. The twin takes the last dimension off before subtracting.

Measured (seeds 0 and 1): R2 0.032 and 0.030 with the fault, 0.356 and 0.410 in the twin.
"""

from __future__ import annotations

import math

import torch
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)


class LogCosh(nn.Module):
    """The mean of log(cosh(prediction - target)): quadratic near zero and linear far from it."""

    def __init__(self, squeeze: bool):
        super().__init__()
        self.squeeze = squeeze

    def forward(self, prediction, target):
        if self.squeeze:
            prediction = prediction.squeeze(-1)
        error = prediction - target
        return (error + F.softplus(-2 * error) - math.log(2)).mean()


def build(seed: int, squeeze: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = (torch.tensor(part, dtype=torch.float32) for part in load_diabetes(return_X_y=True))
    train, val = train_test_split(torch.arange(len(y)), test_size=0.25, random_state=seed)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30),
        loss_fn=LogCosh(squeeze),
        train_loader=DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), batch_size=len(val)),
        metric=lambda out, target: r2_score(target.numpy(), out.squeeze(-1).numpy()),
    )
    return program, Spec(task="regression", epochs=30, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, squeeze=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, squeeze=True)
