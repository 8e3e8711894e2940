"""Imbalanced tabular classification: 5% of the customers leave; the rare class is oversampled.

Fault: the rare rows are repeated before the table is split at random, so that copies of the same customer lie in
training and in validation. The balanced accuracy looks splendid; on customers of next month it is not.

Measured (seeds 0 and 1): reported balanced accuracy 0.91 and 0.92 faulty, 0.79 and 0.78 twin; on 20000 fresh
customers the faulty one's model has 0.84 and 0.83, the twin's 0.80 and 0.79.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)


def customers(count, g):
    """Forty numbers, of which a few tell something, with much chance in who leaves."""
    x = torch.randn(count, 40, generator=g)
    logit = 1.6 * x[:, 0] - 1.4 * x[:, 1] + 1.2 * x[:, 2] - 5.0
    return x, (torch.rand(count, generator=g) < torch.sigmoid(logit)).long()


def oversample(x, y, g):
    """Repeat rows of class 1, drawn with replacement, until both classes have as many."""
    rare, common = torch.nonzero(y == 1)[:, 0], torch.nonzero(y == 0)[:, 0]
    drawn = rare[torch.randint(0, len(rare), (len(common) - len(rare),), generator=g)]
    rows = torch.cat([common, rare, drawn])
    return x[rows], y[rows]


def split(x, y, share, g):
    order = torch.randperm(len(y), generator=g)
    cut = int(share * len(y))
    return (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])


def balanced_accuracy(out, y):
    right = (out.argmax(1) == y).float()
    return (right[y == 0].mean() + right[y == 1].mean()).item() / 2


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    x, y = customers(4000, g)
    if ok:
        train, val = split(x, y, 0.6, g)
        train = oversample(*train, g)
    else:
        train, val = split(*oversample(x, y, g), 0.6, g)
    model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 2))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(*train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*val), 500),
        metric=balanced_accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=8)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
