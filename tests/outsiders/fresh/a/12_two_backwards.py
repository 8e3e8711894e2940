"""The two-task step clears the gradients before each of its two backward passes and steps once at the end: the
gradient of the kind of object is thrown away and only its position is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("step",)
KINDS, SIZE = 4, 16
STAMPS = torch.tensor(
    [
        [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]],
        [[0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]],
        [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]],
        [[1, 1, 1, 1], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]],
    ],
    dtype=torch.float32,
)


def scenes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures of one part on a belt; a target holds its kind, row and column."""
    kind = torch.randint(KINDS, (count,), generator=generator)
    corner = torch.randint(SIZE - 3, (count, 2), generator=generator)
    x = 0.4 * torch.randn(count, 1, SIZE, SIZE, generator=generator)
    for i, (row, column) in enumerate(corner.tolist()):
        x[i, 0, row : row + 4, column : column + 4] += 1.5 * STAMPS[kind[i]]
    place = (corner - (SIZE - 4) / 2) / 3.75
    return x, torch.cat([kind[:, None].float(), place], dim=1)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(24 * 16, 64),
            nn.ReLU(),
        )
        self.kind, self.place = nn.Linear(64, KINDS), nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        features = self.trunk(x)
        return torch.cat([self.kind(features), self.place(features)], dim=1)


def kind_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs[:, :KINDS], targets[:, 0].long())


def place_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs[:, KINDS:], targets[:, 1:])


def both_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return kind_loss(outputs, targets) + place_loss(outputs, targets)


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs[:, :KINDS].argmax(1) == targets[:, 0]).float().mean())


class TwoTaskStep:
    """One backward pass for each task; `clear_before` names the passes that start from cleared gradients."""

    def __init__(self, clear_before: Sequence[int]) -> None:
        self.clear_before = clear_before

    def __call__(self, program: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        for number, loss_fn in enumerate((kind_loss, place_loss)):
            if number in self.clear_before:
                program.optimizer.zero_grad()
            loss_fn(program.model(x), y).backward()
        program.optimizer.step()


def build(seed: int, clear_before: Sequence[int]) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    train, val = TensorDataset(*scenes(1600, generator)), TensorDataset(*scenes(500, generator))
    torch.manual_seed(seed)
    model = Detector()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=both_losses,
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=generator),
        val_loader=DataLoader(val, batch_size=250),
        step=TwoTaskStep(clear_before),
        metric=accuracy,
    )
    return program, Spec(epochs=16)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, clear_before=(0, 1))


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, clear_before=(0,))
