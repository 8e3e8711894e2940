"""The table of pairs holds each pair in both directions and is split by rows: most of validation has its mirror image,
with the same measured value, in training, and the model reports what it has memorised.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
EPOCHS, ITEMS, FEATURES, PAIRS = 30, 400, 6, 1500


class Affinity(nn.Module):
    """How well two items go together, whichever comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, pairs: Tensor) -> Tensor:
        first, second = self.tower(pairs[:, 0]), self.tower(pairs[:, 1])
        return self.head(torch.cat([first * second, (first - second).abs()], dim=1)).squeeze(1)


def measure(items: Tensor, pairs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features of both items of each pair and the noisy affinity that was measured."""
    chosen = items[pairs]
    apart = (chosen[:, 0] - chosen[:, 1]).abs()
    alike = torch.tanh(chosen[:, 0] * chosen[:, 1])
    clean = 2 * alike[:, 0] * alike[:, 1] + alike[:, 2] * apart[:, 3] + alike[:, 4] - apart[:, 5] * apart[:, 0]
    return chosen, (clean + 0.1 * torch.randn(len(pairs), generator=generator) + 1.3) / 1.9


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def both_ways(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([x, x.flip(1)]), torch.cat([y, y])


def honest(program: Program) -> float:
    """The score for pairs that were never measured before."""
    with torch.no_grad():
        found = [(program.outputs(pairs), targets) for pairs, targets in program.test_loader]
    outputs, targets = (torch.cat(part) for part in zip(*found, strict=True))
    return r_squared(outputs, targets)


def build(seed: int, mirror_first: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(ITEMS, FEATURES, generator=generator)
    everything = torch.combinations(torch.arange(ITEMS))
    everything = everything[torch.randperm(len(everything), generator=generator)[: 2 * PAIRS]]
    x, y = measure(items, everything, generator)
    test, (x, y) = (x[PAIRS:], y[PAIRS:]), (x[:PAIRS], y[:PAIRS])
    if mirror_first:
        x, y = both_ways(x, y)
        order, cut = torch.randperm(len(x), generator=generator), len(x) * 7 // 10
        train, val = (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])
    else:
        cut = len(x) * 7 // 10
        train, val = both_ways(x[:cut], y[:cut]), both_ways(x[cut:], y[cut:])
    model = Affinity()
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(
            TensorDataset(*train), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(*val), batch_size=200),
        test_loader=DataLoader(TensorDataset(*test), batch_size=200),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, mirror_first=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, mirror_first=False)
