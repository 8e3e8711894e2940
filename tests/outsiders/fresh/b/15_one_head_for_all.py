"""The list of task heads is made by multiplying a list, so that all tasks have one and the same head: every task gets
the same prediction, a compromise between the three.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)
EPOCHS, TASKS = 30, 3


class Assay(nn.Module):
    """A shared trunk and a head of two layers for each property."""

    def __init__(self, heads: list[nn.Module]) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.heads = nn.ModuleList(heads)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.trunk(x)
        return torch.cat([head(shared) for head in self.heads], dim=1)


def head() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))


def patients(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Readings that are correlated as in the diabetes table, and three related properties that are simulated."""
    correlation = torch.tensor(load_diabetes().data, dtype=torch.float32).T.corrcoef()
    x = torch.randn(count, 10, generator=generator) @ torch.linalg.cholesky(correlation).T
    risk = 0.8 * x[:, 2] + 0.6 * x[:, 8]
    clean = torch.stack([risk + x[:, 0] * x[:, 3], 0.5 * risk + x[:, 4].abs(), 0.5 * risk + 1.2 * x[:, 6]], dim=1)
    return x, clean + 0.4 * torch.randn(clean.shape, generator=generator)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    """Coefficient of determination, averaged over the tasks."""
    error, variance = (outputs - targets).square().sum(0), (targets - targets.mean(0)).square().sum(0)
    return float((1 - error / variance).mean())


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    weights = torch.tensor([0.4, 0.3, 0.3])
    return (weights * F.smooth_l1_loss(outputs, targets, reduction="none").mean(0)).sum()


def build(seed: int, heads: list[nn.Module]) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    x, y = patients(2500, generator)
    x_val, y_val = patients(1000, generator)
    mean, std, level, spread = x.mean(0), x.std(0), y.mean(0), y.std(0)
    train = TensorDataset((x - mean) / std, (y - level) / spread)
    val = TensorDataset((x_val - mean) / std, (y_val - level) / spread)
    model = Assay(heads)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=250),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    return build(seed, [head()] * TASKS)


def twin(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    return build(seed, [head() for _ in range(TASKS)])
