"""Segmentation of round cells in small synthetic micrographs, with square debris as distraction.

Fault: The augmentation calls the random flip once for the image and once for the mask; each call tosses its own coin,
so half of the training pairs do not match. The twin tosses once for both.

Measured (seeds 0 and 1): validation IoU 0.664 and 0.697 with the fault, 0.874 and 0.808 in the twin (loss 0.216 and
0.193, 0.062 and 0.083).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels", "inputs")
EPOCHS = 15
SIZE = 32


def micrographs(count, random):
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images = random.normal(0, 0.25, (count, SIZE, SIZE))
    masks = np.zeros((count, SIZE, SIZE), dtype=np.int64)
    for image, mask in zip(images, masks, strict=False):
        for _ in range(random.integers(1, 3)):
            row, column, half = [*random.integers(3, SIZE - 3, 2).tolist(), random.integers(2, 4)]
            image[(abs(rows - row) <= half) & (abs(columns - column) <= half)] += 1.0
        for _ in range(random.integers(2, 4)):
            row, column, radius = [*random.integers(5, SIZE - 5, 2).tolist(), random.integers(4, 7)]
            disc = (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
            image[disc] += 1.0
            mask[disc] = 1
    return torch.tensor(images, dtype=torch.float32).unsqueeze(1), torch.from_numpy(masks)


class Cells(Dataset):
    def __init__(self, images, masks, transform=None):
        self.images, self.masks, self.transform = images, masks, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, mask = self.images[index], self.masks[index]
        if self.transform is not None:
            image, mask = self.transform(image, mask)
        return image, mask


def flip(picture):
    return picture.flip(-1) if torch.rand(()) < 0.5 else picture


def augment(image, mask):
    return flip(image), flip(mask)


def augment_twin(image, mask):
    if torch.rand(()) < 0.5:
        return image.flip(-1), mask.flip(-1)
    return image, mask


def network():
    layers, channels = [], 1
    for dilation in (1, 2, 4, 1):
        layers += [nn.Conv2d(channels, 12, 3, padding=dilation, dilation=dilation), nn.ReLU()]
        channels = 12
    return nn.Sequential(*layers, nn.Conv2d(12, 2, 1))


def overlap(outputs, targets):
    found, true = outputs.argmax(1) == 1, targets == 1
    return float((found & true).sum() / (found | true).sum())


def build(seed, transform):
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    images, masks = micrographs(240, random)
    val_images, val_masks = micrographs(100, random)
    mean, std = images.mean(), images.std()
    images, val_images = (images - mean) / std, (val_images - mean) / std
    model = network()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(Cells(images, masks, transform), batch_size=20, shuffle=True, generator=shuffle),
        val_loader=DataLoader(Cells(val_images, val_masks), batch_size=50),
        plain_loader=DataLoader(Cells(images, masks), batch_size=20),
        metric=overlap,
    )
    return program, Spec(task="segmentation", classes=2, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, augment)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, augment_twin)
