"""The label encoder of the city column is fitted anew on the validation table, in which rare cities are missing: most
cities get another code there than in training, and the price model looks up the wrong embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.preprocessing import LabelEncoder, StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("inputs",)


@dataclass
class Table:
    city: np.ndarray
    numbers: np.ndarray
    price: np.ndarray

    def rows(self, index: np.ndarray) -> Table:
        return Table(self.city[index], self.numbers[index], self.price[index])


def flats(seed: int) -> Table:
    """Rents per square metre; a few big cities and a long tail of small ones."""
    rng = np.random.default_rng(seed)
    names = np.array([f"city_{i:02d}" for i in range(60)])
    share = 1.0 / (1.0 + rng.permutation(60)) ** 1.3
    level = rng.normal(0, 1.0, 60)
    city = rng.choice(60, 3000, p=share / share.sum())
    area, age, floor = rng.gamma(6, 12, 3000), rng.uniform(0, 80, 3000), rng.integers(0, 8, 3000)
    price = 12 + 2.5 * level[city] - 1.2 * np.log(area / 70) - 0.02 * age + 0.2 * floor + rng.normal(0, 0.7, 3000)
    return Table(names[city], np.stack([area, age, floor], 1), price)


class RentModel(nn.Module):
    def __init__(self, cities: int, width: int = 8) -> None:
        super().__init__()
        self.city = nn.Embedding(cities, width)
        self.net = nn.Sequential(nn.Linear(width + 3, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        city, numbers = x
        return self.net(torch.cat([self.city(city), numbers], dim=1)).squeeze(1)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return 1.0 - float(((outputs - targets) ** 2).mean() / targets.var(correction=0))


def build(seed: int, refit: bool) -> tuple[Program, Spec]:
    table = flats(seed)
    order = np.random.default_rng(seed + 1).permutation(len(table.price))
    train, val = table.rows(order[600:]), table.rows(order[:600])

    encoder = LabelEncoder()
    codes = {"train": encoder.fit_transform(train.city)}
    cities = len(encoder.classes_)
    known = np.isin(val.city, encoder.classes_)
    val = val.rows(np.flatnonzero(known))
    codes["val"] = encoder.fit_transform(val.city) if refit else encoder.transform(val.city)

    scaler = StandardScaler().fit(train.numbers)
    mean, std = train.price.mean(), train.price.std()

    def dataset(part: Table, code: np.ndarray) -> TensorDataset:
        numbers = torch.tensor(scaler.transform(part.numbers), dtype=torch.float32)
        return TensorDataset(torch.tensor(code), numbers, torch.tensor((part.price - mean) / std, dtype=torch.float32))

    torch.manual_seed(seed)
    model = RentModel(cities)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            dataset(train, codes["train"]), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(dataset(val, codes["val"]), batch_size=200),
        unpack=lambda batch: ((batch[0], batch[1]), batch[2]),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, refit=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, refit=False)
