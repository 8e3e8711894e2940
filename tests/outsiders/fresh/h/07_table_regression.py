"""A network with batch norm predicts a number from a table of ten columns (Friedman's first function).

Fault: `BatchNorm1d(momentum=0.99)` was carried over from Keras, where momentum is the share of the OLD running
statistics; in PyTorch it is the share of the new batch, so that 0.01 was meant. The running statistics are then those
of the last batch of 16 only. Training is as it should be (it does not use them); in evaluation the predictions are off
by the noise of that one batch.

Measured (seeds 0 and 1): R2 in validation after the last epoch 0.65 and 0.57 faulty (one epoch before: 0.83
and 0.86), 0.926 and 0.926 repaired.
"""

from __future__ import annotations

import torch
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers",)
EPOCHS = 20


class Regressor(nn.Module):
    """Two hidden layers with batch norm."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, 48), nn.BatchNorm1d(48, momentum=momentum), nn.ReLU(),
            nn.Linear(48, 48), nn.BatchNorm1d(48, momentum=momentum), nn.ReLU(), nn.Linear(48, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).squeeze(1)


def _r2(outputs: Tensor, targets: Tensor) -> float:
    return float(r2_score(targets.numpy(), outputs.numpy()))


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    table, target = make_friedman1(2608, noise=1.0, random_state=seed)
    x, y = torch.tensor(table, dtype=torch.float32), torch.tensor(target, dtype=torch.float32)
    train, val = slice(0, 2000), slice(2000, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()
    generator = torch.Generator().manual_seed(seed)
    train_set, val_set = TensorDataset(x[train], y[train]), TensorDataset(x[val], y[val])
    return DataLoader(train_set, 16, shuffle=True, generator=generator), DataLoader(val_set, 256)


def _build(seed: int, momentum: float) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = Regressor(momentum)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=train_loader,
        val_loader=val_loader,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        metric=_r2,
    )
    return program, Spec(task="regression", epochs=EPOCHS, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, momentum=0.99)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, momentum=0.01)
