"""A network trained on 4,000 drawn shapes is fine-tuned on 300 photographs of them with untidy labels (those of
validation were checked): a new head at a high learning rate, the backbone at one a hundred times lower, with warm-up
and cosine.

Fault: the schedule writes the head's rate into every parameter group, so the backbone is trained at a hundred times the
rate meant and forgets what it knew. The twin scales each group's own rate.

Measured (seeds 0 and 1): on 5,000 fresh photographs with clean labels the faulty program is right on 0.639 and 0.647,
the twin on 0.733 and 0.733.
"""

import copy
import functools
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "schedule"
SPEC = Spec(task="classification", classes=4, epochs=15, scheduler_steps="epoch")
SIZE = 12


def shapes(rng, n, photographed, untidy=0.0):
    """Discs, squares, crosses and rings somewhere in the image; photographs are paler, noisier, on a gradient."""
    kinds = rng.integers(0, 4, n)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    r, c = rng.uniform(4, SIZE - 5, (2, n, 1, 1))
    size = rng.uniform(2.2, 3.6, (n, 1, 1))
    dy, dx = np.abs(rows - r), np.abs(columns - c)
    distance = np.hypot(dy, dx)
    disc = distance < size
    square = np.maximum(dy, dx) < size * 0.9
    cross = (np.minimum(dy, dx) < 0.8) & (np.maximum(dy, dx) < size)
    ring = disc & (distance > size - 1.2)
    images = np.choose(kinds[:, None, None], [disc, square, cross, ring]).astype(float)
    if photographed:
        tilt = rng.normal(scale=0.03, size=(n, 1, 1)) * (rows - SIZE / 2)
        images = images * rng.uniform(0.6, 1.0, (n, 1, 1)) + 0.1 + tilt + rng.normal(scale=0.35, size=images.shape)
    else:
        images = images + rng.normal(scale=0.3, size=images.shape)
    wrong = rng.random(n) < untidy
    kinds = np.where(wrong, rng.integers(0, 4, n), kinds)
    return torch.tensor(images, dtype=torch.float32).unsqueeze(1), torch.tensor(kinds)


class ShapeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 36, 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.backbone(x))


@functools.lru_cache(maxsize=4)
def pretrained(seed):
    torch.manual_seed(seed)
    model = ShapeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    drawn = TensorDataset(*shapes(np.random.default_rng(1000 + seed), 4000, photographed=False))
    for _ in range(4):
        for x, y in DataLoader(drawn, 64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


class WarmupCosine:
    """Rises over the first epochs and falls to nothing along a cosine."""

    def __init__(self, optimizer, rate, warmup, epochs):
        self.optimizer, self.rate, self.warmup, self.epochs = optimizer, rate, warmup, epochs
        self.epoch = 0
        self.set_rates()

    def factor(self):
        if self.epoch < self.warmup:
            return (self.epoch + 1) / self.warmup
        return 0.5 * (1 + math.cos(math.pi * (self.epoch - self.warmup) / (self.epochs - self.warmup)))

    def set_rates(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * self.factor()

    def step(self):
        self.epoch += 1
        self.set_rates()

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.set_rates()


class GroupwiseWarmupCosine(WarmupCosine):
    """The same, in proportion to each group's own rate."""

    def set_rates(self):
        for group in self.optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * self.factor()


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    model = copy.deepcopy(pretrained(seed))
    torch.manual_seed(seed)
    model.head = nn.Linear(64, 4)
    train = TensorDataset(*shapes(rng, 300, photographed=True, untidy=0.2))
    val = TensorDataset(*shapes(rng, 400, photographed=True))
    optimizer = torch.optim.AdamW(
        [
            {"params": model.backbone.parameters(), "lr": 5e-5},
            {"params": model.head.parameters(), "lr": 5e-3},
        ],
        weight_decay=0.01,
    )
    schedule = WarmupCosine if faulty else GroupwiseWarmupCosine
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 200),
        scheduler=schedule(optimizer, 5e-3, 3, SPEC.epochs),
        metric=accuracy,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
