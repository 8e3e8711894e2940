"""Mixup draws one random order for the pictures and another one for the labels: the partner's share of the label
belongs to a third picture, and the network is taught half-wrong labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("step", "labels")
CLASSES, SIZE, EPOCHS = 12, 14, 32


def textures(count: int, seed: int, draw: int) -> tuple[Tensor, Tensor]:
    """Fabric photos: stripes of six directions and two widths under noise and uneven light."""
    rng = np.random.default_rng((seed, draw))
    y = rng.integers(0, CLASSES, count)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    angle = (y // 2 * np.pi / 6 + rng.normal(0, 0.10, count))[:, None, None]
    width = (np.where(y % 2 == 0, 3.6, 5.0) * rng.normal(1, 0.05, count))[:, None, None]
    phase, light = rng.uniform(0, 2 * np.pi, (2, count, 1, 1))
    wave = np.sin(2 * np.pi * (np.cos(angle) * columns + np.sin(angle) * rows) / width + phase)
    picture = wave + 0.1 * (np.cos(light) * columns + np.sin(light) * rows) + rng.normal(0, 1.6, wave.shape)
    return torch.tensor(picture[:, None], dtype=torch.float32), torch.from_numpy(y)


def same_order(order: Tensor) -> Tensor:
    return order


def new_order(order: Tensor) -> Tensor:
    return torch.randperm(len(order))


def mixup_step(label_order: Callable[[Tensor], Tensor]) -> Callable[[Program, tuple[Tensor, Tensor]], None]:
    def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        share = float(np.random.beta(0.8, 0.8))
        order = torch.randperm(len(x))
        partner = y[label_order(order)]
        outputs = program.model(share * x + (1 - share) * x[order])
        loss = share * program.loss_fn(outputs, y) + (1 - share) * program.loss_fn(outputs, partner)
        program.optimizer.zero_grad()
        loss.backward()
        program.optimizer.step()

    return step


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, label_order: Callable[[Tensor], Tensor]) -> tuple[Program, Spec]:
    x_train, y_train = textures(1000, seed, 1)
    x_val, y_val = textures(600, seed, 2)
    mean, std = x_train.mean(), x_train.std()
    train, val = TensorDataset((x_train - mean) / std, y_train), TensorDataset((x_val - mean) / std, y_val)

    torch.manual_seed(seed)
    np.random.seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=CosineAnnealingLR(optimizer, T_max=EPOCHS),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        step=mixup_step(label_order),
        metric=accuracy,
    )
    return program, Spec(
        task="classification", classes=CLASSES, epochs=EPOCHS, scheduler_steps="epoch", mixes_labels=True
    )


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, new_order)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, same_order)
