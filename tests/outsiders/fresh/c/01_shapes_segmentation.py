"""Segmentation of discs and squares, with random crops as augmentation.

Fault: the random crop is called once for the image and once for the mask, so that each draws its own offset: image and
mask do not lie over each other. Shapes and types stay right, so nothing crashes; the loss falls to that of a blurred
guess. Validation uses the centre crop, which is right.

Mean IoU of validation after 12 epochs (seeds 0, 1): twin 0.93, 0.92; faulty 0.26, 0.44.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "labels")
SIZE, CROP, CLASSES = 24, 16, 3


def draw(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy images with a disc (1) and a square (2), and their masks."""
    grid = torch.arange(SIZE)
    rows, columns = grid[:, None], grid[None, :]
    images, masks = [], []
    for _ in range(count):
        mask = torch.zeros(SIZE, SIZE, dtype=torch.long)
        for kind in (1, 2):
            y, x = torch.randint(5, SIZE - 5, (2,), generator=generator).tolist()
            radius = int(torch.randint(3, 6, (1,), generator=generator))
            if kind == 1:
                inside = (rows - y) ** 2 + (columns - x) ** 2 <= radius**2
            else:
                inside = ((rows - y).abs() < radius) & ((columns - x).abs() < radius)
            mask[inside] = kind
        level = torch.tensor([0.0, 1.0, -1.0])[mask]
        images.append(level + 0.5 * torch.randn(SIZE, SIZE, generator=generator))
        masks.append(mask)
    return torch.stack(images)[:, None], torch.stack(masks)


def random_crop(picture: Tensor) -> Tensor:
    """A random window of the last two axes."""
    top, left = torch.randint(0, SIZE - CROP + 1, (2,)).tolist()
    return picture[..., top : top + CROP, left : left + CROP]


def centre_crop(picture: Tensor) -> Tensor:
    """The window in the middle."""
    start = (SIZE - CROP) // 2
    return picture[..., start : start + CROP, start : start + CROP]


class Shapes(Dataset):
    """Images and masks, cropped."""

    def __init__(self, images: Tensor, masks: Tensor, mode: str) -> None:
        """mode: 'together', 'apart' or 'centre'."""
        self.images, self.masks, self.mode = images, masks, mode

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = self.images[index], self.masks[index]
        if self.mode == "centre":
            return centre_crop(image), centre_crop(mask)
        if self.mode == "apart":
            return random_crop(image), random_crop(mask)
        both = random_crop(torch.cat([image, mask[None].float()]))
        return both[:1], both[1].long()


def mean_iou(outputs: Tensor, targets: Tensor) -> float:
    """Intersection over union, averaged over the classes."""
    guess, ious = outputs.argmax(1), []
    for kind in range(CLASSES):
        hit, is_kind = guess == kind, targets == kind
        ious.append(float((hit & is_kind).sum()) / max(1.0, float((hit | is_kind).sum())))
    return sum(ious) / CLASSES


def build(seed: int, mode: str) -> tuple[Program, Spec]:
    """The program."""
    generator = torch.Generator().manual_seed(seed)
    train, val = draw(320, generator), draw(128, generator)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, CLASSES, 3, padding=1),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(Shapes(*train, mode), batch_size=32, shuffle=True),
        val_loader=DataLoader(Shapes(*val, "centre"), batch_size=64),
        plain_loader=DataLoader(Shapes(*train, "centre"), batch_size=32, shuffle=True),
        metric=mean_iou,
    )
    return program, Spec(task="segmentation", classes=CLASSES, epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    """Image and mask are cropped each for itself."""
    return build(seed, "apart")


def twin(seed: int) -> tuple[Program, Spec]:
    """Image and mask are cropped together."""
    return build(seed, "together")
