"""Segmentation: crescents of light in noisy 20x20 images are to be marked; training images are flipped at random.

Fault: the dataset flips image and mask each by its own draw (`self.flip(image)`, `self.flip(mask)`), as happens when
one puts a random transform into both `transform` and `target_transform`. Half of the training masks are thus the
mirror image of what they should be. Validation has no augmentation and is right.

Measured, intersection over union on validation (higher is better), faulty / twin: seed 0: 0.715 / 0.847; seed 1:
0.744 / 0.833.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "labels")
SIZE = 20


class Flipped(Dataset):
    """Images and masks, turned left to right in half of the cases."""

    def __init__(self, images, masks, ok):
        self.images, self.masks, self.ok = images, masks, ok

    def __len__(self):
        return len(self.images)

    def flip(self, *layers):
        if torch.rand(()) < 0.5:
            layers = [layer.flip(-1) for layer in layers]
        return layers

    def __getitem__(self, index):
        image, mask = self.images[index], self.masks[index]
        if self.ok:
            image, mask = self.flip(image, mask)
        else:
            (image,), (mask,) = self.flip(image), self.flip(mask)
        return {"image": image, "mask": mask}


class Plain(TensorDataset):
    def __getitem__(self, index):
        image, mask = super().__getitem__(index)
        return {"image": image, "mask": mask}


def crescents(count, generator):
    """A disc with a smaller disc cut out of it, on a background of noise and a slope of brightness."""

    def uniform(low, high):
        return low + (high - low) * torch.rand(count, 1, 1, generator=generator)

    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    row, column, radius = uniform(5, 15), uniform(5, 15), uniform(3, 6)
    disc = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
    bite = (rows - row - uniform(-3, 3)) ** 2 + (columns - column - uniform(-3, 3)) ** 2 < (0.6 * radius) ** 2
    mask = (disc & ~bite).float()
    slope = uniform(-0.03, 0.03) * (columns - SIZE / 2) + uniform(-0.03, 0.03) * (rows - SIZE / 2)
    images = mask * uniform(0.7, 1.2) + slope + 0.35 * torch.randn(count, SIZE, SIZE, generator=generator)
    return images[:, None], mask[:, None]


def iou(logits, masks):
    found, true = logits > 0, masks > 0.5
    return float((found & true).sum() / (found | true).sum().clamp_min(1))


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(130 + seed)
    train, val = crescents(400, generator), crescents(150, generator)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=5e-3),
        nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(Flipped(*train, ok), batch_size=20, shuffle=True, generator=shuffle),
        val_loader=DataLoader(Plain(*val), batch_size=50),
        plain_loader=DataLoader(Plain(*train), batch_size=20),
        unpack=lambda batch: (batch["image"], batch["mask"]),
        metric=iou,
    )
    return program, Spec(task="segmentation", epochs=14)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
