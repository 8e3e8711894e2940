"""The feature shards are joined in numeric order and the label shards in alphabetic order ("part_10" before "part_2").
The backlog shard fits, all later rows carry the labels of other rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("labels",)
STATES = ["idle", "heating", "cooling", "defrost"]


def read_shards(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Heat pump log: a backlog and ten later exports, readings and states in separate files."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 1.0, (len(STATES), 10))
    mixing = rng.normal(0, 0.5, (10, 10)) + np.eye(10)
    readings, states = {}, {}
    for number, rows in enumerate([1100, *[150] * 10], start=1):
        y = rng.integers(0, len(STATES), rows)
        x = centres[y] + rng.normal(0, 0.8, (rows, 10))
        readings[f"part_{number}"] = (x @ mixing + 20.0).astype(np.float32)
        states[f"part_{number}"] = y
    return readings, states


def shard_number(name: str) -> int:
    return int(name.rsplit("_", 1)[1])


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, label_key: Callable[[str], int] | None) -> tuple[Program, Spec]:
    readings, states = read_shards(seed)
    x = np.concatenate([readings[name] for name in sorted(readings, key=shard_number)])
    y = np.concatenate([states[name] for name in sorted(states, key=label_key)])

    order = np.random.default_rng(seed + 1).permutation(len(x))
    train, val = order[600:], order[:600]
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std

    def dataset(rows: np.ndarray) -> TensorDataset:
        return TensorDataset(torch.from_numpy(x[rows]), torch.from_numpy(y[rows]))

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, len(STATES)))
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(dataset(train), batch_size=64, shuffle=True, generator=generator),
        val_loader=DataLoader(dataset(val), batch_size=256),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=len(STATES), epochs=20)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, label_key=None)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, label_key=shard_number)
