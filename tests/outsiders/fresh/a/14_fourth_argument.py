"""The weight decay is handed to AdamW by position and lands in the fourth argument, which is eps: the steps shrink with
the small gradients of the pixel loss, and the segmentation is far from done when the run ends.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("optimizer",)
SIZE = 20


def cells(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Microscope pictures with bright round cells and dark dirt of the same size; the mask shows the cells."""
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    picture, mask = torch.zeros(count, SIZE, SIZE), torch.zeros(count, SIZE, SIZE)
    for i in range(count):
        for _ in range(3):
            row, column = (SIZE * torch.rand(2, generator=generator)).tolist()
            radius = 2.0 + 2.0 * float(torch.rand(1, generator=generator))
            inside = ((rows - row) ** 2 + (columns - column) ** 2) < radius**2
            if torch.rand(1, generator=generator) < 0.6:
                picture[i][inside], mask[i][inside] = 0.5, 1.0
            else:
                ring = inside & (((rows - row) ** 2 + (columns - column) ** 2) > (radius - 1.5) ** 2)
                picture[i][ring] = 0.7
    noise = 0.25 * torch.randn(count, SIZE, SIZE, generator=generator)
    return (picture + noise)[:, None], mask[:, None]


class SmallUNet(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.enter(x)
        return self.leave(torch.cat([skip, self.up(self.down(skip))], dim=1))


def dice(outputs: Tensor, targets: Tensor) -> float:
    found = (outputs > 0).float()
    return float(2 * (found * targets).sum() / (found.sum() + targets.sum()))


def build(seed: int, *settings: Any, **named: Any) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    x, y = cells(800, generator)
    x = (x - x[:600].mean()) / x[:600].std()
    torch.manual_seed(seed)
    model = SmallUNet()
    program = Program(
        model=model,
        optimizer=AdamW(model.parameters(), *settings, **named),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(TensorDataset(x[:600], y[:600]), batch_size=20, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[600:], y[600:]), batch_size=100),
        metric=dice,
    )
    return program, Spec(task="segmentation", epochs=22)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, 3e-3, (0.9, 0.999), 0.05)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, 3e-3, (0.9, 0.999), weight_decay=0.05)
