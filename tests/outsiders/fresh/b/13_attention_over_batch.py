"""The weights of attention pooling are normalised over the sequences of the batch instead of over the positions of a
sequence: each sequence competes with its neighbours, and its outputs depend on who shares the batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers",)
EPOCHS, LONGEST, WIDTH = 25, 20, 8


class AttentionPooling(nn.Module):
    """Weighted mean over the positions that are no padding."""

    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))
        self.dim = dim

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        score = self.score(x).squeeze(-1).masked_fill(padding, -1e4)
        weight = score.softmax(self.dim).masked_fill(padding, 0.0)
        return (weight.unsqueeze(-1) * x).sum(1)


class Events(nn.Module):
    """Rates sequences of events, whose first feature is one where there is an event and zero in padding."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(WIDTH + 1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.pool = AttentionPooling(32, dim)
        self.head = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.embed(x), x[..., 0] == 0)).squeeze(1)


def events(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences of random events; the value is that of one of them, which is marked by its last feature."""
    lengths = torch.randint(6, LONGEST + 1, (count,), generator=generator)
    place = (torch.rand(count, generator=generator) * lengths).long()
    features = torch.randn(count, LONGEST, WIDTH, generator=generator)
    features[..., -1] = 0.3 * features[..., -1]
    rows = torch.arange(count)
    features[rows, place, -1] += 2.0
    marked = features[rows, place]
    y = marked[:, 0] + marked[:, 1] - 0.5 * marked[:, 2] + 0.3 * torch.randn(count, generator=generator)
    there = (torch.arange(LONGEST) < lengths[:, None]).float().unsqueeze(-1)
    return torch.cat([there, features * there], dim=-1), y / 1.5


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, dim: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train, val = TensorDataset(*events(2400, generator)), TensorDataset(*events(800, generator))
    model = Events(dim)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, dim=0)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, dim=1)
