"""A small convolutional network tells six textures and shapes apart in noisy 18 x 18 colour images (default loop).

Fault: the images come as (N, H, W, C), and are brought to (N, C, H, W) with `reshape` in place of a transposition, so
the three planes that the network sees are interleaved strips of the picture. The twin permutes the axes.

Measured (seeds 0 and 1): accuracy on 600 test images 0.86 and 0.73; the twin's 0.99 and 0.98.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="classification", classes=6, epochs=10)
SIDE = 18


def draw(n, rng):
    """Images (n, SIDE, SIDE, 3) of bytes, and the class of each."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    labels = rng.integers(0, 6, n)
    images = np.empty((n, SIDE, SIDE, 3))
    for i, label in enumerate(labels):
        cy, cx = rng.uniform(6, SIDE - 6, 2)
        dy, dx, r = rows - cy, columns - cx, rng.uniform(3.5, 5.5)
        if label == 0:
            shape = dy**2 + dx**2 < r**2
        elif label == 1:
            shape = np.abs(np.hypot(dy, dx) - r) < 1.0
        elif label == 2:
            shape = (np.abs(dy) < r) & (np.abs(dx) < r) & ((np.abs(dy) < 1) | (np.abs(dx) < 1))
        elif label == 3:
            shape = (np.abs(dy) < r) & ((np.abs(dy - dx) < 1.4) | (np.abs(dy + dx) < 1.4))
        elif label == 4:
            shape = (np.abs(dy) < r) & (np.abs(dx) < r)
        else:
            shape = (np.abs(dy) < r) & (np.abs(dx) < r) & (np.maximum(np.abs(dy), np.abs(dx)) > r - 1.6)
        ground, ink = rng.uniform(40, 120, 3), rng.uniform(130, 230, 3)
        images[i] = np.where(shape[..., None], ink, ground) + rng.normal(0, 25, (SIDE, SIDE, 3))
    return images.clip(0, 255).astype(np.uint8), labels


def to_planes(images, faulty):
    """Bytes (N, H, W, C) as floats (N, C, H, W)."""
    x = torch.from_numpy(images).float() / 255
    n, height, width, channels = x.shape
    x = x.reshape(n, channels, height, width) if faulty else x.permute(0, 3, 1, 2).contiguous()
    return (x - 0.5) / 0.25


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(128, 6),
    )  # fmt: skip


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    parts = {}
    for name, n in (("train", 1200), ("val", 400), ("test", 600)):
        images, labels = draw(n, rng)
        parts[name] = TensorDataset(to_planes(images, faulty), torch.from_numpy(labels))
    model = network()
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(parts["train"], batch_size=64, shuffle=True),
        val_loader=DataLoader(parts["val"], batch_size=200),
        test_loader=DataLoader(parts["test"], batch_size=200),
        metric=accuracy,
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
