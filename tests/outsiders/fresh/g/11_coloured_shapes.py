"""Classify colour images of discs, squares and crosses in two tints with a convolutional network.

Fault: the images come as (height, width, channel), and `reshape(-1, 3, 24, 24)` is to make them (channel, height,
width): it should be `permute(0, 3, 1, 2)`. The shape is right and the content is not: pixels of three colours alternate
along each row, and each channel holds a third of the image. The network learns what it can from that.

Measured (seeds 0 and 1): validation accuracy 0.683 and 0.728 faulty, 0.983 and 0.970 repaired; loss 0.687 and 0.635
against 0.046 and 0.089.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS = 15
SIZE = 24


def _images(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images as an image library gives them, (count, height, width, 3) in bytes, and their classes."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images = rng.normal(110, 24, (count, SIZE, SIZE, 3))
    labels = rng.integers(6, size=count)
    for image, label in zip(images, labels, strict=True):
        shape, tint = divmod(label, 2)
        radius = rng.uniform(4, 7)
        down, right = np.abs(rows - rng.uniform(8, 16)), np.abs(columns - rng.uniform(8, 16))
        if shape == 0:
            inside = down**2 + right**2 < radius**2
        elif shape == 1:
            inside = np.maximum(down, right) < 0.89 * radius
        else:
            inside = (np.minimum(down, right) < 0.35 * radius) & (np.maximum(down, right) < 1.2 * radius)
        image[inside] += (70, 25, -20) if tint else (-20, 25, 70)
    return images.clip(0, 255).astype(np.uint8), labels


def _reshape(images: Tensor) -> Tensor:
    return images.reshape(-1, 3, SIZE, SIZE)


def _permute(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2).contiguous()


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def _build(seed: int, channels_first: Callable[[Tensor], Tensor]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)

    def tensors(count: int) -> TensorDataset:
        images, labels = _images(count, rng)
        x = channels_first(torch.from_numpy(images).float() / 255)
        return TensorDataset((x - 0.45) / 0.13, torch.from_numpy(labels))

    train, val = tensors(1200), tensors(400)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 6),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 100),
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=6, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _reshape)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _permute)
