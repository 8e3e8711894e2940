"""Rents of flats from district, kind of building and heating (embedded) and five numbers.

Fault: the names of each column are numbered in order of appearance, in training and in validation apart, so one
district has one number in training and another in validation. The twin keeps training's numbers.

Measured (seeds 0 and 1): the faulty program reports an R2 of 0.366 and 0.575, while on 10,000 fresh flats with
training's numbers it has 0.896 and 0.854; the twin is the same network and reports 0.904 and 0.858.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="regression", epochs=12)
COLUMNS = {"district": 40, "building": 6, "heating": 5}


class City:
    """What each name is worth, and the flats let in it."""

    def __init__(self, rng):
        self.worth = {name: rng.normal(scale=0.35, size=size) for name, size in COLUMNS.items()}
        self.weights = rng.normal(scale=0.3, size=5)

    def flats(self, rng, n):
        numbers = rng.normal(size=(n, 5))
        rent = numbers @ self.weights + 0.15 * numbers[:, 0] * numbers[:, 1] + rng.normal(scale=0.25, size=n)
        names = {}
        for column, size in COLUMNS.items():
            ids = np.minimum(rng.geometric(2.5 / size, n) - 1, size - 1)
            rent += self.worth[column][ids]
            names[column] = np.array([f"{column}-{(7 * i + 3) % size:02d}" for i in ids])
        return names, numbers, rent


def numbering(values):
    """Name -> number, in order of appearance; 0 is for the unknown."""
    return {name: 1 + i for i, name in enumerate(dict.fromkeys(values))}


def encode(names, numberings):
    columns = [[numberings[column].get(name, 0) for name in names[column]] for column in COLUMNS]
    return torch.tensor(columns).T


class RentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size + 1, 6) for size in COLUMNS.values())
        self.body = nn.Sequential(nn.Linear(23, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, inputs):
        ids, numbers = inputs
        embedded = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.body(torch.cat([*embedded, numbers], dim=1)).squeeze(1)


def unpack(batch):
    ids, numbers, rent = batch
    return (ids, numbers), rent


def r2(outputs, targets):
    return 1 - ((outputs - targets) ** 2).sum().item() / ((targets - targets.mean()) ** 2).sum().item()


def dataset(names, numbers, rent, numberings):
    numbers, rent = torch.tensor(numbers, dtype=torch.float32), torch.tensor(rent, dtype=torch.float32)
    return TensorDataset(encode(names, numberings), numbers, rent)


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    city = City(rng)
    train, val = city.flats(rng, 4000), city.flats(rng, 1000)
    known = {column: numbering(train[0][column]) for column in COLUMNS}
    known_val = {column: numbering(val[0][column]) for column in COLUMNS} if faulty else known
    model = RentNet()
    generator = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(dataset(*train, known), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(dataset(*val, known_val), 500),
        unpack=unpack,
        metric=r2,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
