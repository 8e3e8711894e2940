"""The experts of a mixture are copies of one, and the gate starts even: all experts get the same gradient for ever, so
that the mixture can do no more than one linear expert.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)
EPOCHS, FEATURES, REGIMES = 30, 6, 4


class Mixture(nn.Module):
    """Linear experts, weighted by a gate that starts with equal weights."""

    def __init__(self, experts: list[nn.Module]) -> None:
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.gate = nn.Sequential(nn.Linear(FEATURES, 24), nn.ReLU(), nn.Linear(24, len(experts)))
        nn.init.zeros_(self.gate[-1].weight)
        nn.init.zeros_(self.gate[-1].bias)

    def forward(self, x: Tensor) -> Tensor:
        answers = torch.cat([expert(x) for expert in self.experts], dim=1)
        return (self.gate(x).softmax(1) * answers).sum(1)


def linear_expert() -> nn.Module:
    return nn.Linear(FEATURES, 1)


def copies(count: int) -> list[nn.Module]:
    expert = linear_expert()
    return [copy.deepcopy(expert) for _ in range(count)]


def separate(count: int) -> list[nn.Module]:
    return [linear_expert() for _ in range(count)]


def plant(count: int, slopes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Readings of a machine that follows another linear law in each of four regimes."""
    x = torch.randn(count, FEATURES, generator=generator)
    regime = 2 * (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    y = (x * slopes[regime]).sum(1) + 0.3 * torch.randn(count, generator=generator)
    return x, y


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, experts: list[nn.Module], generator: torch.Generator) -> tuple[Program, Spec]:
    slopes = torch.randn(REGIMES, FEATURES, generator=generator)
    x, y = plant(2400, slopes, generator)
    x_val, y_val = plant(1000, slopes, generator)
    mean, std, level, spread = x.mean(0), x.std(0), y.mean(), y.std()
    train = TensorDataset((x - mean) / std, (y - level) / spread)
    val = TensorDataset((x_val - mean) / std, (y_val - level) / spread)
    model = Mixture(experts)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=250),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    return build(seed, copies(8), torch.Generator().manual_seed(seed))


def twin(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    return build(seed, separate(8), torch.Generator().manual_seed(seed))
