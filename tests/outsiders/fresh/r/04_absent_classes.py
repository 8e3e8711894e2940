"""A small fully convolutional network marks seven kinds of objects on satellite-like images of 24 x 24 pixels (class 0
is ground; an image holds two or three kinds). Judged by mean intersection over union.

Fault: the metric averages over all eight classes in each image, and a class that is neither in the image nor in the
prediction counts as one (eps / eps). The twin averages over the classes that occur in the image or the prediction.

Measured (seeds 0 and 1): the faulty program reports 0.688 and 0.685, the twin, which has the same model, 0.488 and
0.473; on 400 fresh images it is 0.484 and 0.462, and 0.523 and 0.481 over the pixels of all images.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
CLASSES, EPS = 8, 1e-6
SPEC = Spec(task="segmentation", classes=CLASSES, epochs=14)
COLOURS = np.array([
    [0.35, 0.45, 0.30], [0.20, 0.45, 0.55], [0.55, 0.50, 0.45], [0.50, 0.35, 0.30], [0.30, 0.35, 0.45],
    [0.25, 0.55, 0.25], [0.60, 0.60, 0.35], [0.45, 0.45, 0.55],
])  # fmt: skip


def scenes(rng, n, size=24):
    """Images with rectangles and discs of two or three kinds, and the class of each pixel."""
    row, col = np.mgrid[:size, :size]
    masks = np.zeros((n, size, size), dtype=np.int64)
    for mask in masks:
        for kind in rng.choice(np.arange(1, CLASSES), rng.integers(2, 4), replace=False):
            r, c = rng.integers(3, size - 3, 2)
            a, b = rng.integers(3, 7, 2)
            disc = (row - r) ** 2 + (col - c) ** 2 < a * b
            mask[disc if kind % 2 else (np.abs(row - r) < a) & (np.abs(col - c) < b)] = kind
    images = COLOURS[masks] + rng.normal(0, 0.06, (n, 1, 1, 3)) + rng.normal(0, 0.10, (n, size, size, 3))
    return torch.tensor(images.transpose(0, 3, 1, 2), dtype=torch.float32), torch.tensor(masks)


def overlaps(outputs, targets):
    """Intersection and union in pixels, of each image and class."""
    guess = nn.functional.one_hot(outputs.argmax(1), CLASSES).flatten(1, 2).bool()
    truth = nn.functional.one_hot(targets, CLASSES).flatten(1, 2).bool()
    return (guess & truth).sum(1).float(), (guess | truth).sum(1).float()


def mean_iou_all(outputs, targets):
    intersection, union = overlaps(outputs, targets)
    return ((intersection + EPS) / (union + EPS)).mean().item()


def mean_iou(outputs, targets):
    intersection, union = overlaps(outputs, targets)
    iou = torch.where(union > 0, intersection / union.clamp(min=1), torch.nan)
    return iou.nanmean(1).mean().item()


def build(seed, metric):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    images, masks = scenes(rng, 400)
    val_images, val_masks = scenes(rng, 200)
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 24, 3, padding=2, dilation=2), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, CLASSES, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    train = TensorDataset((images - mean) / std, masks)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 20, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset((val_images - mean) / std, val_masks), 100),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=metric,
    )


def make(seed):
    return build(seed, mean_iou_all), SPEC


def twin(seed):
    return build(seed, mean_iou), SPEC
