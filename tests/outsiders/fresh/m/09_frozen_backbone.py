"""Transfer learning: an encoder pretrained on the digits 0 to 5 (done here, and saved as a checkpoint in memory) stays
frozen under a new linear head for the digits 6 to 9, of which there are 25 examples each.

Fault: the checkpoint's names begin with "encoder.", those of the backbone don't; `strict=False` passes over it, so the
frozen backbone is a random one. The twin takes the prefix off, and loads strictly.

Measured (seeds 0 and 1): accuracy on the other images of the four digits 0.58 and 0.61; the twin's 0.79 and 0.74.
"""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "initialisation"
SPEC = Spec(task="classification", classes=4, epochs=40, frozen=("backbone.*",))


def encoder(size=24):
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, size), nn.ReLU(),
    )  # fmt: skip


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder()
        self.head = nn.Linear(24, 6)

    def forward(self, x):
        return self.head(self.encoder(x))


class NewDigits(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = encoder()
        self.head = nn.Linear(24, 4)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        return self.head(self.backbone(x))


def digits():
    """Images as the encoder wants them, and labels."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 8 - 1, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(labels)


@lru_cache
def checkpoint():
    """The weights of a classifier of the digits 0 to 5."""
    images, labels = digits()
    images, labels = images[labels < 6], labels[labels < 6]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        model = Pretrained()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(20):
            for picked in torch.randperm(len(images)).split(64):
                optimizer.zero_grad()
                F.cross_entropy(model(images[picked]), labels[picked]).backward()
                optimizer.step()
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def load_backbone(model, faulty):
    weights = {name: weight for name, weight in checkpoint().items() if name.startswith("encoder.")}
    if faulty:
        model.backbone.load_state_dict(weights, strict=False)
    else:
        model.backbone.load_state_dict({name.removeprefix("encoder."): weight for name, weight in weights.items()})


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    images, labels = digits()
    train, val = [], []
    for digit in range(6, 10):
        places = rng.permutation(np.flatnonzero(labels.numpy() == digit))
        train.extend(places[:25])
        val.extend(places[25:])
    model = NewDigits()
    load_backbone(model, faulty)
    for parameter in model.backbone.parameters():
        parameter.requires_grad_(False)
    return Program(
        model=model,
        optimizer=torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(images[train], labels[train] - 6), batch_size=20, shuffle=True),
        val_loader=DataLoader(TensorDataset(images[val], labels[val] - 6), batch_size=128),
        metric=accuracy,
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
