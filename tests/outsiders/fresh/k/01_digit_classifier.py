"""A small convolutional classifier for the 8x8 digits of scikit-learn, trained with SGD.

Fault: the network ends in a softmax and its output goes to nn.CrossEntropyLoss, which applies another one: gradients
are small and the loss cannot fall below 1.46. The twin gives logits to the loss.

Measured (seeds 0 and 1): accuracy 0.624 and 0.760; twin 0.976 and 0.980.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss", "model")


class DigitNet(nn.Module):
    def __init__(self, classes: int, normalise_output: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, classes))
        if normalise_output:
            self.head.append(nn.Softmax(dim=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed: int, softmax: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(x / 16.0, y, test_size=0.25, stratify=y, random_state=seed)

    def dataset(images, labels):
        images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8)
        return TensorDataset((images - 0.305) / 0.376, torch.tensor(labels, dtype=torch.long))

    shuffler = torch.Generator().manual_seed(seed)
    model = DigitNet(10, softmax)
    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(dataset(x_train, y_train), batch_size=64, shuffle=True, generator=shuffler),
        val_loader=DataLoader(dataset(x_val, y_val), batch_size=256),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=10)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, softmax=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, softmax=False)
