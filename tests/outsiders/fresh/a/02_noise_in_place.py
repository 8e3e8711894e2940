"""The dataset adds its augmentation noise in place to the stored picture, so that the noise adds up over the epochs
and the training pictures drown while validation stays clean.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging import Program, Spec

PART = ("inputs",)


class Digits(Dataset):
    """Pictures held in memory, with sensor noise drawn anew for each access."""

    def __init__(
        self, images: Tensor, labels: Tensor, sigma: float, jitter: Callable[[Tensor, Tensor], Tensor], seed: int = 0
    ) -> None:
        self.images, self.labels, self.sigma, self.jitter = images, labels, sigma, jitter
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index]
        if self.sigma > 0:
            image = self.jitter(image, self.sigma * torch.randn(image.shape, generator=self.generator))
        return image, self.labels[index]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(32 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, jitter: Callable[[Tensor, Tensor], Tensor]) -> tuple[Program, Spec]:
    digits = load_digits()
    x_train, x_val, y_train, y_val = train_test_split(
        digits.images, digits.target, test_size=500, stratify=digits.target, random_state=seed
    )
    mean, std = x_train.mean(), x_train.std()

    def tensor(images) -> Tensor:
        return torch.tensor((images - mean) / std, dtype=torch.float32).unsqueeze(1)

    train = Digits(tensor(x_train), torch.tensor(y_train), sigma=0.4, jitter=jitter, seed=seed)
    val = Digits(tensor(x_val), torch.tensor(y_val), sigma=0.0, jitter=jitter)

    torch.manual_seed(seed)
    model = Net()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=250),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, jitter=Tensor.add_)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, jitter=Tensor.add)
