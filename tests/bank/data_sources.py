"""What the cases of data share: changed copies of the base programs' data, and programs of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.data import load_digits
from lecture_lib.debugging import Program, Spec

from .programs import PARTS, Data, Parts, accuracy, changed, make, r2, shapes_data

FIRST = torch.tensor([0.485, 0.456, 0.406])
SPREAD = torch.tensor([0.229, 0.224, 0.225])


class Transformed(Dataset):
    """Examples whose inputs go through a function each time they are read."""

    def __init__(self, x: Tensor, y: Tensor, transform: Callable[[Tensor], Tensor]) -> None:
        self.x, self.y, self.transform = x, y, transform

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.transform(self.x[i]), self.y[i]


def generator(seed: int = 0) -> torch.Generator:
    """A random stream of its own."""
    return torch.Generator().manual_seed(seed)


def shuffled(dataset: Dataset, seed: int, batch_size: int = 64) -> DataLoader:
    """The usual loader of training examples."""
    return DataLoader(dataset, batch_size, shuffle=True, generator=generator(seed))


def with_data(
    base: str, seed: int, change: Callable[[Data], Data], of_parts: dict[str, Any] | None = None, **of_make: Any
) -> tuple[Program, Spec]:
    """A base program with changed data, and with other parts where given."""
    parts = changed(base, data=lambda: change(PARTS[base].data()), **(of_parts or {}))
    return make(base, seed, parts=parts, **of_make)


def program(seed: int, parts: Parts, **of_program: Any) -> tuple[Program, Spec]:
    """A program of a case's own."""
    return make("", seed, parts=parts, **of_program)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """For programs of a case's own."""
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)


def classifier(data: Data, classes: int, epochs: int = 12, **of_spec: Any) -> Parts:
    """A table [N, columns] into classes."""
    spec = Spec(task="classification", classes=classes, epochs=epochs, **of_spec)
    columns = data.x.shape[1]
    return Parts(
        lambda: data,
        lambda: nn.Sequential(nn.Linear(columns, 48), nn.ReLU(), nn.Linear(48, classes)),
        F.cross_entropy,
        adamw,
        accuracy,
        spec,
    )


def tanh_net(columns: int, outputs: int) -> nn.Module:
    """As `small_regressor`, with other columns or targets."""
    layers = nn.Linear(columns, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, outputs)
    return nn.Sequential(*layers)


def regressor(data: Data, epochs: int = 20, **of_spec: Any) -> Parts:
    """A table [N, columns] into numbers [N, targets]."""
    columns, targets = data.x.shape[1], data.y.shape[1]
    return Parts(
        lambda: data,
        lambda: nn.Sequential(nn.Linear(columns, 48), nn.Tanh(), nn.Linear(48, targets)),
        F.mse_loss,
        adamw,
        r2,
        Spec(task="regression", epochs=epochs, **of_spec),
    )


def digit_images() -> tuple[Tensor, Tensor]:
    """All digits from 0 to 1, [N, 64], and their labels, in the order of `digits_data`."""
    found = load_digits()
    order = torch.randperm(len(found.labels), generator=generator(0))
    return found.images.flatten(1)[order], found.labels[order]


def shape_pixels() -> tuple[Tensor, Tensor]:
    """The images of `shapes_data`, training's and validation's, from 0 to 1."""
    data = shapes_data()
    low, high = data.x.min(), data.x.max()
    return (data.x - low) / (high - low), (data.x_val - low) / (high - low)


@lru_cache
def coloured() -> Data:
    """The shapes in one of three colours, from 0 to 1, [N, 3, 16, 16]; the class is that of shape and colour, 15."""
    data, (x, x_val) = shapes_data(), shape_pixels()
    tints = torch.tensor([[0.9, 0.5, 0.15], [0.5, 0.8, 0.3], [0.15, 0.4, 0.95]])
    which = torch.randint(3, (len(x) + len(x_val),), generator=generator(8))
    images = torch.cat([x, x_val]) * tints[which][:, :, None, None]
    labels = 3 * torch.cat([data.y, data.y_val]) + which
    return Data(images[: len(x)], labels[: len(x)], images[len(x) :], labels[len(x) :])


def colour_net() -> nn.Module:
    """For the coloured shapes."""
    return nn.Sequential(
        *(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(24 * 16, 15)),
    )
