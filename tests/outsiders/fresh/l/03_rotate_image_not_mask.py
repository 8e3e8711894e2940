"""Segmentation of bright blobs on a textured background (24 x 24 pixels) with a small encoder and decoder, augmented
with quarter turns.

Fault: the random quarter turn is applied to the image alone and the mask stays as it was; the twin turns both by the
same angle.

Measured (seeds 0 and 1): intersection over union on validation 0.006 and 0.000 with the fault, 0.729 and 0.776 in the
twin.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SIZE = 24


def draw_scenes(count, generator):
    """Ellipses of moderate contrast on coarse noise, and where they are."""
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    coarse = torch.randn(count, 1, SIZE // 4, SIZE // 4, generator=generator)
    images = 0.6 * F.interpolate(coarse, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
    images = images + 0.5 * torch.randn(count, 1, SIZE, SIZE, generator=generator)
    masks = torch.zeros(count, 1, SIZE, SIZE)
    for i in range(count):
        for _ in range(2):
            cy, cx = torch.rand(2, generator=generator) * (SIZE - 8) + 4
            ry, rx = torch.rand(2, generator=generator) * 2.5 + 2.5
            inside = ((rows - cy) / ry) ** 2 + ((columns - cx) / rx) ** 2 <= 1
            masks[i, 0][inside] = 1.0
    return images + 1.3 * masks, masks


class Scenes(Dataset):
    def __init__(self, images, masks, augment, turn_masks):
        self.images, self.masks = images, masks
        self.augment, self.turn_masks = augment, turn_masks

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, mask = self.images[index], self.masks[index]
        if self.augment:
            k = int(torch.randint(0, 4, (1,)))
            image = torch.rot90(image, k, dims=(-2, -1))
            if self.turn_masks:
                mask = torch.rot90(mask, k, dims=(-2, -1))
        return image, mask


class TinyUNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.leave = nn.Sequential(nn.Conv2d(3 * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, x):
        skip = self.enter(x)
        deep = F.interpolate(self.middle(self.down(skip)), scale_factor=2, mode="nearest")
        return self.leave(torch.cat([skip, deep], dim=1))


def iou(logits, masks):
    predicted, true = logits > 0, masks > 0.5
    return ((predicted & true).sum() / (predicted | true).sum().clamp(min=1)).item()


def build(seed, turn_masks):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images, masks = draw_scenes(400, generator)
    mean, std = images[:300].mean(), images[:300].std()
    images = (images - mean) / std
    train = Scenes(images[:300], masks[:300], augment=True, turn_masks=turn_masks)
    plain = Scenes(images[:300], masks[:300], augment=False, turn_masks=turn_masks)
    val = Scenes(images[300:], masks[300:], augment=False, turn_masks=turn_masks)
    model = TinyUNet()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, batch_size=20, shuffle=True),
        plain_loader=DataLoader(plain, batch_size=20),
        val_loader=DataLoader(val, batch_size=50),
        metric=iou,
    )
    return program, Spec(task="segmentation", classes=2, epochs=12)


def make(seed):
    return build(seed, turn_masks=False)


def twin(seed):
    return build(seed, turn_masks=True)
