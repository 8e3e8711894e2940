"""The overlap of predicted and true masks compares (pictures, height, width) with (pictures, 1, height, width): the
shapes broadcast, each prediction is compared with the masks of all pictures, and the score stays low for good.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS, SIDE = 20, 16


class Segmenter(nn.Module):
    """A small network of one scale up and down with a bridge; one logit for each pixel."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.coarse = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.head = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        fine = self.fine(x)
        return self.head(torch.cat([fine, self.up(self.coarse(fine))], dim=1)).squeeze(1)


def discs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Bright discs to be found among bright bars, in noise."""
    line = torch.arange(SIDE, dtype=torch.float32)
    centre = 4 + 8 * torch.rand(count, 2, 1, 1, generator=generator)
    radius = 2.5 + 1.5 * torch.rand(count, 1, 1, generator=generator)
    mask = ((line[:, None] - centre[:, 0]) ** 2 + (line - centre[:, 1]) ** 2 < radius**2).float()
    bar = torch.randint(0, SIDE, (count, 1, 1), generator=generator)
    picture = torch.maximum(mask, (line == bar).float().expand_as(mask))
    picture = picture + 0.4 * torch.randn(picture.shape, generator=generator)
    return picture[:, None], mask[:, None]


def loss_fn(outputs: Tensor, masks: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, masks.squeeze(1))


def overlap(outputs: Tensor, masks: Tensor) -> float:
    """Intersection over union of all pixels."""
    found, truth = outputs > 0, masks.bool()
    return float((found & truth).sum() / (found | truth).sum())


def overlap_of_pictures(outputs: Tensor, masks: Tensor) -> float:
    """Intersection over union of all pixels."""
    return overlap(outputs, masks.squeeze(1))


def build(seed: int, metric: Callable[[Tensor, Tensor], float]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = discs(600, generator)
    x_val, y_val = discs(200, generator)
    mean, std = x.mean(), x.std()
    train, val = TensorDataset((x - mean) / std, y), TensorDataset((x_val - mean) / std, y_val)
    model = Segmenter()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=100),
        metric=metric,
    )
    return program, Spec(task="segmentation", classes=2, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, overlap)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, overlap_of_pictures)
