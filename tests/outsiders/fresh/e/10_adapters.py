"""Fine-tuning with low-rank adapters: a frozen net that tells odd digits from even ones is to name the digit.

Fault: both factors of each adapter start at zero, and so the gradient of each, which contains the other, stays zero
for ever: only the new head is trained. "The adapter has to start as the identity", said the comment; one zero is
enough.

Measured (seeds 0 and 1): validation accuracy 0.81 and 0.82 faulty, 0.93 and 0.95 twin.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)


class Adapted(nn.Module):
    """A linear layer plus a product of two thin matrices."""

    def __init__(self, base, rank, ok):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.zeros(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)
        if not ok:
            nn.init.zeros_(self.down)
        self.scale = 8 / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.T @ self.up.T)


def pretrained(x, parity):
    """The net that somebody else trained: odd or even."""
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(25):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), parity[rows]).backward()
            optimizer.step()
    return net


def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    digits = load_digits()
    x = (torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.305) / 0.376
    y = torch.tensor(digits.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    early, late, val = order[:700], order[700:1400], order[1400:]
    base = pretrained(x[early], y[early] % 2)
    base.requires_grad_(False)

    torch.manual_seed(seed + 1000)
    model = nn.Sequential()
    model.add_module("first", Adapted(base[0], 4, ok))
    model.add_module("act1", nn.ReLU())
    model.add_module("second", Adapted(base[2], 4, ok))
    model.add_module("act2", nn.ReLU())
    model.add_module("head", nn.Linear(24, 10))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, weight_decay=0.01)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            TensorDataset(x[late], y[late]), 32, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), 200),
        metric=accuracy,
    )
    spec = Spec(task="classification", classes=10, epochs=25, frozen=("first.base.*", "second.base.*"))
    return program, spec


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
