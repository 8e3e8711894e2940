"""Fine-tune a small convolutional network, pretrained on the digits 0 to 4, for the digits 5 to 9.

Fault: the optimizer is made before the last layer is replaced, because the author put the new head in later, next to
the data it is for. The optimizer holds the old head, which is no longer in the model; the new one gets gradients but is
never updated. The backbone, at its small rate, fits itself to the random head, so accuracy still rises.

Measured (seeds 0 and 1): validation accuracy 0.855 and 0.811 faulty, 0.915 and 0.913 repaired; validation loss 0.908
and 1.064 against 0.304 and 0.273.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
EPOCHS = 15


class DigitNet(nn.Module):
    """A convolutional backbone and a linear head."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(128, 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes."""
        return self.head(self.backbone(images))


def _pretrained(images: Tensor, labels: Tensor) -> DigitNet:
    model = DigitNet(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    return model


def _optimizer(model: DigitNet) -> torch.optim.Optimizer:
    groups = [
        {"params": model.backbone.parameters(), "lr": 1e-4},
        {"params": model.head.parameters(), "lr": 1e-2},
    ]
    return torch.optim.Adam(groups)


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def _build(seed: int, *, head_first: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = (images - 0.305) / 0.376
    labels = torch.tensor(digits.target)
    model = _pretrained(images[labels < 5], labels[labels < 5])
    x, y = images[labels >= 5], labels[labels >= 5] - 5
    rows, val_rows = train_test_split(range(len(x)), train_size=400, random_state=seed, stratify=y)

    if head_first:
        model.head = nn.Linear(64, 5)
        optimizer = _optimizer(model)
    else:
        optimizer = _optimizer(model)
        model.head = nn.Linear(64, 5)

    train = TensorDataset(x[rows], y[rows])
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(x[val_rows], y[val_rows]), 128),
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=5, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, head_first=False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, head_first=True)
