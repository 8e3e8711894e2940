"""A convolutional network that was trained on the digits 0 to 4 is fine-tuned on the digits 5 to 9: a new head at a
high learning rate, the backbone at a low one.

Fault: the optimizer is made before the new head is put in, so it holds the old head's weights, and the new head stays
as it was drawn. The twin makes the optimizer afterwards.

Measured (seeds 0 and 1): on 146 digits that neither training nor validation holds the faulty program is right on 0.747
and 0.795, the twin on 0.911 and 0.890.
"""

import copy
import functools

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "optimizer"
SPEC = Spec(task="classification", classes=5, epochs=12)


class DigitNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def digits(low, high):
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    y = torch.tensor(y)
    rows = (y >= low) & (y <= high)
    return x[rows], y[rows] - low


@functools.lru_cache(maxsize=4)
def pretrained(seed):
    torch.manual_seed(seed)
    model = DigitNet(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(*digits(0, 4)), 32, shuffle=True)
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


def fine_tuner(model):
    return torch.optim.AdamW(
        [
            {"params": model.backbone.parameters(), "lr": 2e-4},
            {"params": model.head.parameters(), "lr": 1e-2},
        ],
        weight_decay=0.01,
    )


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    model = copy.deepcopy(pretrained(seed))
    torch.manual_seed(seed)
    x, y = digits(5, 9)
    order = torch.randperm(len(y))
    train = TensorDataset(x[order[:600]], y[order[:600]])
    val = TensorDataset(x[order[600:750]], y[order[600:750]])
    if faulty:
        optimizer = fine_tuner(model)
        model.head = nn.Linear(64, 5)
    else:
        model.head = nn.Linear(64, 5)
        optimizer = fine_tuner(model)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 150),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=accuracy,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
