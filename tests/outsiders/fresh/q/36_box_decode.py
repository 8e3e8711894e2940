"""A small detector finds the one bright object in images of 32 x 32: for each cell of a 4 x 4 grid it gives an
objectness, the centre within the cell and the size.

Fault: the evaluation decodes the centre as the cell's corner and leaves out the offset within the cell, which training
teaches, so the boxes reported on are shifted by up to a cell. The twin adds the offset.

Measured (seeds 0 and 1): the faulty program reports a mean IoU of 0.259 and 0.269 and an AP50 of 0.123 and 0.153, while
on 2,000 fresh images, decoded rightly, it has 0.822 and 0.820; the twin is the same network and reports 0.824 and
0.818.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("evaluation", "metric")
SPEC = Spec(epochs=10)
SIZE, GRID = 32, 4
STRIDE = SIZE // GRID


def scene(rng):
    """An image and its box: centre x, centre y, width, height in pixels."""
    w, h = rng.uniform(7, 15, 2)
    x, y = rng.uniform(w / 2, SIZE - w / 2), rng.uniform(h / 2, SIZE - h / 2)
    rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
    inside = (np.abs(columns - x) < w / 2) & (np.abs(rows - y) < h / 2)
    image = rng.normal(scale=0.25, size=(SIZE, SIZE)) + 0.15 * np.sin(columns / rng.uniform(2, 6))
    return image + inside * rng.uniform(0.7, 1.2), (x, y, w, h)


def scenes(rng, n):
    images, boxes = zip(*(scene(rng) for _ in range(n)), strict=True)
    return torch.tensor(np.stack(images), dtype=torch.float32).unsqueeze(1), torch.tensor(boxes, dtype=torch.float32)


def cells(boxes):
    """Column and row of the cell that a box's centre lies in."""
    at = (boxes[:, :2] / STRIDE).long().clamp(0, GRID - 1)
    return at[:, 0], at[:, 1]


def detection_loss(outputs, boxes):
    column, row = cells(boxes)
    rows = torch.arange(len(boxes))
    objectness = F.cross_entropy(outputs[:, 0].flatten(1), row * GRID + column)
    offset, size = outputs[rows, 1:3, row, column].sigmoid(), outputs[rows, 3:5, row, column]
    true_offset = boxes[:, :2] / STRIDE - torch.stack([column, row], 1)
    return objectness + 5 * F.mse_loss(offset, true_offset) + 5 * F.mse_loss(size, (boxes[:, 2:] / STRIDE).log())


def decode(outputs, faulty):
    """The most likely cell's box."""
    best = outputs[:, 0].flatten(1).argmax(1)
    row, column = best // GRID, best % GRID
    rows = torch.arange(len(outputs))
    centre = torch.stack([column, row], 1).float()
    if not faulty:
        centre = centre + outputs[rows, 1:3, row, column].sigmoid()
    return torch.cat([centre * STRIDE, outputs[rows, 3:5, row, column].exp() * STRIDE], dim=1)


def iou(a, b):
    low = torch.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    high = torch.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    common = (high - low).clamp(min=0).prod(1)
    return common / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - common)


def evaluate_with(faulty):
    def evaluate(program):
        was = program.model.training
        program.model.eval()
        with torch.no_grad():
            found = [iou(decode(program.outputs(x), faulty), boxes) for x, boxes in program.val_loader]
        program.model.train(was)
        overlap = torch.cat(found)
        return {"mean_iou": overlap.mean().item(), "ap50": (overlap > 0.5).float().mean().item()}

    return evaluate


def network():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.Conv2d(48, 48, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 5, 1),
    )


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = TensorDataset(*scenes(rng, 1200)), TensorDataset(*scenes(rng, 300))
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=detection_loss,
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 100),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        evaluate=evaluate_with(faulty),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
