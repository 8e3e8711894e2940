"""Segmentation of bright ellipses on noisy 24x24 images, with random horizontal flips.

A small convolutional network marks the pixels of the objects; evaluation reports the mean IoU of background and
object. Training flips half of the images from left to right.

Fault: the data set flips the image and leaves the mask as it is, so half of the training masks are mirrored. The twin
flips both.

Measured (seeds 0 and 1): mean IoU 0.875 and 0.872 with the fault, 0.942 and 0.936 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "labels")
SIZE = 24


def scenes(rng, count):
    """Images with one to three ellipses, and their masks."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    images = np.empty((count, 1, SIZE, SIZE), np.float32)
    masks = np.zeros((count, SIZE, SIZE), np.int64)
    for i in range(count):
        background = 0.3 + 0.1 * rng.random()
        image = np.full((SIZE, SIZE), background)
        for _ in range(rng.integers(1, 4)):
            r, c = rng.uniform(3, SIZE - 3, size=2)
            a, b = rng.uniform(2.0, 5.0, size=2)
            inside = ((rows - r) / a) ** 2 + ((columns - c) / b) ** 2 <= 1
            image[inside] = background + rng.uniform(0.25, 0.5)
            masks[i][inside] = 1
        images[i, 0] = image + rng.normal(0, 0.15, size=image.shape)
    return torch.from_numpy((images - 0.4) / 0.22), torch.from_numpy(masks)


class Scenes(Dataset):
    def __init__(self, images, masks, augment=False, flip_mask=True):
        self.images, self.masks = images, masks
        self.augment, self.flip_mask = augment, flip_mask

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.augment and torch.rand(()) < 0.5:
            image = image.flip(-1)
            if self.flip_mask:
                mask = mask.flip(-1)
        return image, mask


def block(inputs, outputs, dilation=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def mean_iou(out, target):
    guess = out.argmax(1)
    ious = []
    for c in (0, 1):
        both = ((guess == c) & (target == c)).sum()
        either = ((guess == c) | (target == c)).sum()
        ious.append(float(both / either.clamp(min=1)))
    return sum(ious) / 2


def build(seed: int, flip_mask: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train_data, val_data = scenes(rng, 320), scenes(rng, 120)
    model = nn.Sequential(block(1, 12), block(12, 12, dilation=2), block(12, 12), nn.Conv2d(12, 2, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(Scenes(*train_data, augment=True, flip_mask=flip_mask), batch_size=16, shuffle=True),
        val_loader=DataLoader(Scenes(*val_data), batch_size=40),
        plain_loader=DataLoader(Scenes(*train_data), batch_size=16, shuffle=True),
        metric=mean_iou,
    )
    return program, Spec(task="segmentation", classes=2, epochs=6)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, flip_mask=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, flip_mask=True)
