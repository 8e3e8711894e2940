"""Segmentation of bright cells in noisy 24x24 pictures with a small U-net; training flips pictures left to right.

Fault: the random flip turns the picture but not its mask, so that half of the training masks are mirrored. The twin
flips both.

Measured (seeds 0 and 1): IoU 0.698 and 0.765; twin 0.924 and 0.932.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "labels")

SIZE = 24


def microscope(n, generator):
    """Pictures with one to three elliptic cells on an uneven background, and their masks."""
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    mask = torch.zeros(n, SIZE, SIZE, dtype=torch.bool)
    for k in range(3):
        centre = 3 + (SIZE - 6) * torch.rand(n, 2, generator=generator)
        radius = 2.5 + 2.5 * torch.rand(n, 2, generator=generator)
        there = torch.rand(n, generator=generator) < (1.0, 0.6, 0.3)[k]
        distance = ((rows - centre[:, 0, None, None]) / radius[:, 0, None, None]) ** 2
        distance = distance + ((columns - centre[:, 1, None, None]) / radius[:, 1, None, None]) ** 2
        mask |= (distance < 1) & there[:, None, None]
    background = 0.4 * (rows / SIZE) * torch.rand(n, 1, 1, generator=generator)
    image = 0.8 * mask + background + 0.35 * torch.randn(n, SIZE, SIZE, generator=generator)
    return image.unsqueeze(1), mask.long()


class Cells(Dataset):
    def __init__(self, images, masks, transform=None):
        self.images, self.masks, self.transform = images, masks, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.transform is not None:
            image, mask = self.transform(image, mask)
        return image, mask


def random_flip(image, mask):
    if torch.rand(()) < 0.5:
        image = image.flip(-1)
    return image, mask


def random_flip_pair(image, mask):
    if torch.rand(()) < 0.5:
        image, mask = image.flip(-1), mask.flip(-1)
    return image, mask


class SmallUNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()

        def double(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1, bias=False),
                nn.BatchNorm2d(o),
                nn.ReLU(),
                nn.Conv2d(o, o, 3, padding=1, bias=False),
                nn.BatchNorm2d(o),
                nn.ReLU(),
            )

        self.down1, self.down2 = double(1, width), double(width, 2 * width)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = double(3 * width, width)
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(self.pool(fine))
        return self.out(self.merge(torch.cat([fine, self.up(coarse)], dim=1)))


def iou(outputs, masks):
    found, cells = outputs.argmax(1) == 1, masks == 1
    return ((found & cells).sum() / (found | cells).sum().clamp(min=1)).item()


def build(seed, transform):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    images, masks = microscope(400, g)
    val_images, val_masks = microscope(100, g)
    mean, std = images.mean(), images.std()
    images, val_images = (images - mean) / std, (val_images - mean) / std

    model = SmallUNet()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(Cells(images, masks, transform), batch_size=20, shuffle=True, generator=g),
        plain_loader=DataLoader(Cells(images, masks), batch_size=20),
        val_loader=DataLoader(Cells(val_images, val_masks), batch_size=50),
        metric=iou,
    )
    return program, Spec(task="segmentation", classes=2, epochs=8)


def make(seed):
    return build(seed, random_flip)


def twin(seed):
    return build(seed, random_flip_pair)
