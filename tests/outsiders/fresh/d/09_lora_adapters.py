"""Fine-tuning: a frozen network pretrained on the digits 0-4 gets low-rank adapters and a new head for mirrored 5-9.

Fault: both matrices of each adapter start at zero. One of them must, so that training starts at the pretrained
network, but with both at zero each one's gradient is a product with the other and stays zero: the adapters never
move. As the new head is trained too, the loss goes down.

Measured, accuracy on validation (higher is better), faulty / twin: seed 0: 0.704 / 0.978; seed 1: 0.682 / 0.981.
"""

import math

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)
RANK = 6


class Adapted(nn.Module):
    """A linear layer that stays as it is, and a trained product of two thin matrices beside it."""

    def __init__(self, base: nn.Linear, ok: bool) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(RANK, base.in_features))
        self.up = nn.Parameter(torch.empty(base.out_features, RANK))
        nn.init.zeros_(self.up)
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        if not ok:
            nn.init.zeros_(self.down)

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def pretrain(x, y):
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 6), nn.ReLU())
    net = nn.Sequential(body, nn.Linear(6, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(12):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return body


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 8 - 0.6
    y = torch.tensor(data.target)
    body = pretrain(images[y < 5].flatten(1), y[y < 5])

    # The new task: the other five digits, seen through a mirror.
    x, y = images[y >= 5].flip(2).flatten(1), y[y >= 5] - 5
    rows, held = train_test_split(torch.arange(len(x)), test_size=0.35, random_state=seed, stratify=y.numpy())
    for index in (0, 2):
        body[index] = Adapted(body[index], ok)
    model = nn.Sequential()
    model.add_module("body", body)
    model.add_module("norm", nn.LayerNorm(6))
    model.add_module("head", nn.Linear(6, 5))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(trained, lr=5e-3, weight_decay=1e-3),
        nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[rows], y[rows]), batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(x[held], y[held]), batch_size=105),
        metric=lambda out, labels: float((out.argmax(1) == labels).float().mean()),
    )
    return program, Spec(task="classification", classes=5, epochs=30, frozen=("*.base.*",))


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
