"""Transfer: a network trained on the digits 0 to 4 is fine-tuned, with a new head, on 150 images of the digits 5 to 9.

Fault: The optimizer is built before the head is replaced: it holds the old head's parameters, and the new head stays
at its random start while only the backbone adapts, at its small rate. The twin replaces the head first.

Measured (seeds 0 and 1): validation accuracy 0.745 and 0.670 with the fault, 0.887 and 0.890 in the twin (loss 1.066
and 1.092, 0.366 and 0.350).
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
EPOCHS = 30


class Network(nn.Module):
    def __init__(self):
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
        self.head = nn.Linear(64, 5)

    def forward(self, images):
        return self.head(self.backbone(images))


def digits():
    table = load_digits()
    images = torch.tensor(table.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(table.target)
    early = labels < 5
    mean, std = images[early].mean(), images[early].std()
    images = (images - mean) / std
    return (images[early], labels[early]), (images[~early], labels[~early] - 5)


def pretrained(images, labels):
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(8):
        for rows in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    return model


def fine_tuning(model):
    groups = [
        {"params": model.backbone.parameters(), "lr": 1e-4},
        {"params": model.head.parameters(), "lr": 5e-3},
    ]
    return torch.optim.Adam(groups)


def prepare(model):
    optimizer = fine_tuning(model)
    model.head = nn.Linear(64, 5)
    return optimizer


def prepare_twin(model):
    model.head = nn.Linear(64, 5)
    return fine_tuning(model)


def accuracy(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed, preparation):
    torch.manual_seed(seed)
    source, (images, labels) = digits()
    train, val = train_test_split(range(len(labels)), train_size=150, random_state=seed, stratify=labels.numpy())
    model = pretrained(*source)
    optimizer = preparation(model)
    shuffle = torch.Generator().manual_seed(seed)
    train_set, val_set = (TensorDataset(images[rows], labels[rows]) for rows in (train, val))
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train_set, batch_size=25, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val_set, batch_size=128),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=5, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, prepare)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, prepare_twin)
