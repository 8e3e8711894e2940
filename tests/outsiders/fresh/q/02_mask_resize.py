"""A small fully convolutional network segments microscope images into background, fibre, cell body and nucleus. Images
and masks were drawn at 48 x 48 and are trained on at 32 x 32.

Fault: the masks are resized bilinearly, as the images are, and cut off to integers, so along every border between a
cell or nucleus and the background there run pixels labelled as classes between them. The twin takes the nearest pixel.

Measured (seeds 0 and 1): on 300 fresh images with masks by the nearest pixel the faulty program has a mean IoU of 0.775
and 0.792 (fibre 0.594 and 0.602) while it reports 0.811 and 0.804 against its own masks; the twin has 0.953 and 0.954
(fibre 0.921 and 0.927). Of all mask pixels 5.9 % are wrong.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
SPEC = Spec(task="segmentation", classes=4, epochs=6)
DRAWN, TRAINED = 48, 32


def drawing(rng):
    """An image and its mask as they come from the annotation tool."""
    rows, columns = np.mgrid[:DRAWN, :DRAWN]
    mask = np.zeros((DRAWN, DRAWN), dtype=np.int64)
    for _ in range(rng.integers(1, 3)):
        angle, offset = rng.uniform(0, np.pi), rng.uniform(-12, 12)
        distance = (columns - DRAWN / 2) * np.cos(angle) + (rows - DRAWN / 2) * np.sin(angle) - offset
        mask[np.abs(distance) < 1.6] = 1
    for kind in rng.permutation([2, 2, 3, 3])[: rng.integers(2, 5)]:
        r, c = rng.uniform(6, DRAWN - 6, 2)
        a, b = rng.uniform(3, 7, 2)
        mask[((rows - r) / a) ** 2 + ((columns - c) / b) ** 2 < 1] = kind
    shades = np.array([[0.15, 0.2, 0.2], [0.5, 0.3, 0.2], [0.3, 0.6, 0.35], [0.35, 0.3, 0.7]])
    image = shades[mask] + rng.normal(scale=0.08, size=(DRAWN, DRAWN, 3)) + rng.normal(scale=0.04, size=3)
    return image.transpose(2, 0, 1), mask


def drawings(rng, n):
    images, masks = zip(*(drawing(rng) for _ in range(n)), strict=True)
    return torch.tensor(np.stack(images), dtype=torch.float32), torch.tensor(np.stack(masks))


def resized(images, masks, faulty):
    size = (TRAINED, TRAINED)
    images = F.interpolate(images, size, mode="bilinear", align_corners=False)
    masks = masks.unsqueeze(1).float()
    if faulty:
        masks = F.interpolate(masks, size, mode="bilinear", align_corners=False)
    else:
        masks = F.interpolate(masks, size, mode="nearest-exact")
    return images, masks.squeeze(1).long()


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 4, 1),
    )


def mean_iou(outputs, targets):
    predicted = outputs.argmax(1)
    ious = []
    for kind in range(4):
        hit = ((predicted == kind) & (targets == kind)).sum().item()
        union = ((predicted == kind) | (targets == kind)).sum().item()
        if union:
            ious.append(hit / union)
    return float(np.mean(ious))


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train = TensorDataset(*resized(*drawings(rng, 400), faulty))
    val = TensorDataset(*resized(*drawings(rng, 120), faulty))
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 16, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 40),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=mean_iou,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
