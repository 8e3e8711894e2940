"""Embedding of handwritten digits with a batch-hard triplet loss.

Fault: the hardest negative is found as `(distances * is_negative).min(1)`. The mask sets the distances to the same
class to 0, not to infinity, so the minimum always is about 0 (that to itself): the loss is hardest positive + margin,
nothing pushes the classes apart, and the embedding falls into one point. Nothing crashes, and the loss falls nicely
until it stands at the margin.

Separation of validation's pairs after 20 epochs (seeds 0, 1; chance 0.5): twin 0.95, 0.95; faulty 0.50, 0.50.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
MARGIN, RADIUS = 0.5, 0.7


class Embedder(nn.Module):
    """Two layers onto the unit sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.body(x), dim=1)


def distances(embedded: Tensor) -> Tensor:
    """Distances of all pairs."""
    return (2 - 2 * embedded @ embedded.T).clamp_min(1e-6).sqrt()


def triplet_loss(embedded: Tensor, labels: Tensor, masked: bool) -> Tensor:
    """Furthest of the same class against nearest of another."""
    apart = distances(embedded)
    same = labels[:, None] == labels[None, :]
    positive = (apart * same).max(1).values
    negative = apart.masked_fill(same, float("inf")).min(1).values if masked else (apart * ~same).min(1).values
    return F.relu(positive - negative + MARGIN).mean()


def separation(embedded: Tensor, labels: Tensor) -> float:
    """How often a pair of one class is nearer than RADIUS and a pair of two classes is not."""
    near = distances(embedded) < RADIUS
    same = labels[:, None] == labels[None, :]
    others = ~torch.eye(len(labels), dtype=torch.bool)
    return float((near[same & others].float().mean() + (~near[~same]).float().mean()) / 2)


def build(seed: int, masked: bool) -> tuple[Program, Spec]:
    """The program."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    y = torch.tensor(digits.target)[order]
    torch.manual_seed(seed)
    model = Embedder()

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return triplet_loss(outputs, targets, masked)

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=64, shuffle=True, drop_last=True),
        val_loader=DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=64),
        metric=separation,
    )
    return program, Spec(epochs=20, couples_samples=True)


def make(seed: int) -> tuple[Program, Spec]:
    """The mask multiplies."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The mask fills with infinity."""
    return build(seed, True)
