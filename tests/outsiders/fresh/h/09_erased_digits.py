"""A convolutional network classifies 8x8 digits, trained with random erasing of a small square of each image.

Fault: the data set erases in place: `image = self.images[index]` is a view, and setting a square of it to the mean
changes the stored image for good, where `.clone()` was needed. The first epoch is right; then the squares pile up, and
after ten epochs 70 % of the training pixels are erased.

Measured (seeds 0 and 1): validation accuracy 0.934 and 0.954 faulty, 0.988 and 0.981 repaired; loss 0.30 and
0.24 faulty, 0.042 and 0.044 repaired.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS = 20


class ErasedDigits(Dataset[tuple[Tensor, Tensor]]):
    """Digits, each with a random 3x3 square set to the mean."""

    def __init__(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> None:
        self.images, self.labels, self.generator = images, labels, generator

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Tensor:
        return self.images[index]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.image(index)
        row, column = torch.randint(0, 6, (2,), generator=self.generator).tolist()
        image[:, row : row + 3, column : column + 3] = 0  # the mean, as images are standardised
        return image, self.labels[index]


class RepairedErasedDigits(ErasedDigits):
    """The same on a copy of the image."""

    def image(self, index: int) -> Tensor:
        return self.images[index].clone()


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def _build(seed: int, dataset: type[ErasedDigits]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels)
    train, val = train_test_split(range(len(y)), train_size=1000, random_state=seed, stratify=labels)
    x = (x - x[train].mean()) / x[train].std()
    train_set = dataset(x[train], y[train], torch.Generator().manual_seed(seed))
    model = _network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train_set, 50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), 256),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=EPOCHS, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, ErasedDigits)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, RepairedErasedDigits)
