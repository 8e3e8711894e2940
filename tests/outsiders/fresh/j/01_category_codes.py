"""Churn of customers from a table of categorical and numerical columns.

The columns city, plan and channel are encoded to integers and embedded, three numerical columns are standardised with
the training rows' statistics, and a small network gives the logit of churn. Rows come as dictionaries.

Fault: the validation rows' categories are encoded by a LabelEncoder fitted on the validation rows themselves. Rare
cities are missing there, so the codes of all later cities are shifted against training's. The twin encodes validation
with training's encoder.

Measured (seeds 0 and 1): accuracy 0.612 and 0.622 with the fault, 0.886 and 0.818 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.preprocessing import LabelEncoder, StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
COLUMNS = ("city", "plan", "channel")


def table(seed: int, rows: int = 3000):
    rng = np.random.default_rng(seed)
    names = {
        "city": np.array([f"city_{i:02d}" for i in range(60)]),
        "plan": np.array(["basic", "family", "plus", "student", "team"]),
        "channel": np.array(["mail", "partner", "phone", "shop", "web"]),
    }
    frequency = {"city": rng.permutation(1.0 / np.arange(1, 61) ** 1.2), "plan": np.ones(5), "channel": np.ones(5)}
    effect = {"city": 1.8, "plan": 1.0, "channel": 0.7}
    columns, logit = {}, np.zeros(rows)
    for name in COLUMNS:
        p = frequency[name] / frequency[name].sum()
        codes = rng.choice(len(p), size=rows, p=p)
        columns[name] = names[name][codes]
        logit += (rng.normal(size=len(p)) * effect[name])[codes]
    numbers = rng.normal(size=(rows, 3)) * [12.0, 300.0, 2.0] + [30.0, 900.0, 3.0]
    logit += ((numbers - [30.0, 900.0, 3.0]) / [12.0, 300.0, 2.0]) @ np.array([0.8, -0.6, 0.5])
    churn = (rng.random(rows) < 1 / (1 + np.exp(-1.5 * logit))).astype(np.float32)
    return columns, numbers, churn


class Customers(Dataset):
    def __init__(self, codes, numbers, churn):
        self.codes = torch.as_tensor(codes, dtype=torch.long)
        self.numbers = torch.as_tensor(numbers, dtype=torch.float32)
        self.churn = torch.as_tensor(churn, dtype=torch.float32)

    def __len__(self):
        return len(self.churn)

    def __getitem__(self, i):
        return {"codes": self.codes[i], "numbers": self.numbers[i], "churn": self.churn[i]}


class Net(nn.Module):
    def __init__(self, sizes, numbers):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, 8) for size in sizes)
        self.body = nn.Sequential(nn.Linear(8 * len(sizes) + numbers, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))

    def forward(self, inputs):
        codes, numbers = inputs
        parts = [embedding(codes[:, i]) for i, embedding in enumerate(self.embeddings)]
        return self.body(torch.cat([*parts, numbers], dim=1)).squeeze(1)


def build(seed: int, refit: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    columns, numbers, churn = table(seed)
    order = np.random.default_rng(seed + 100).permutation(len(churn))
    # A category that training does not have cannot be encoded: its first row goes to training.
    first = np.unique(np.concatenate([np.unique(columns[c], return_index=True)[1] for c in COLUMNS]))
    order = np.concatenate([first, order[~np.isin(order, first)]])
    train, val = order[:2500], order[2500:]
    train_codes, val_codes, sizes = [], [], []
    for name in COLUMNS:
        encoder = LabelEncoder()
        train_codes.append(encoder.fit_transform(columns[name][train]))
        sizes.append(len(encoder.classes_))
        if refit:
            val_codes.append(encoder.fit_transform(columns[name][val]))
        else:
            val_codes.append(encoder.transform(columns[name][val]))
    scaler = StandardScaler().fit(numbers[train])
    sets = [
        Customers(np.stack(codes, 1), scaler.transform(numbers[rows]), churn[rows])
        for codes, rows in ((train_codes, train), (val_codes, val))
    ]
    model = Net(sizes, numbers.shape[1])
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(sets[0], batch_size=64, shuffle=True),
        val_loader=DataLoader(sets[1], batch_size=250),
        unpack=lambda batch: ((batch["codes"], batch["numbers"]), batch["churn"]),
        metric=lambda out, y: float(((out > 0) == (y > 0.5)).float().mean()),
    )
    return program, Spec(task="multi-label", epochs=8)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, refit=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, refit=False)
