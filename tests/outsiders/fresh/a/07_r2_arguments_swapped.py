"""sklearn's r2_score gets the predictions as the truth and the truth as the predictions: the squared error is divided
by the variance of the predictions, and a useful model is reported as worse than the mean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import r2_score
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("metric",)


def rentals(days: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bicycles hired per hour: weather and hour explain half of it, the rest is chance."""
    rng = np.random.default_rng(seed)
    hour, warmth, rain = rng.integers(6, 22, days), rng.normal(15, 7, days), rng.gamma(0.6, 2.0, days)
    holiday = rng.random(days) < 0.3
    rush = np.exp(-(((hour - 8) / 1.5) ** 2)) + np.exp(-(((hour - 17) / 2.0) ** 2))
    mean = 120 + 70 * rush * (1 - 0.7 * holiday) + 4 * (warmth - 15) - 12 * np.minimum(rain, 5)
    x = np.stack([np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi), warmth, rain, holiday], axis=1)
    return x, mean + rng.normal(0, 36, days)


def swapped_r2(outputs: Tensor, targets: Tensor) -> float:
    return float(r2_score(outputs.numpy(), targets.numpy()))


def usual_r2(outputs: Tensor, targets: Tensor) -> float:
    return float(r2_score(targets.numpy(), outputs.numpy()))


def build(seed: int, metric: Callable[[Tensor, Tensor], float]) -> tuple[Program, Spec]:
    x, y = rentals(4000, seed)
    mean, std, centre, spread = x[:3000].mean(0), x[:3000].std(0), y[:3000].mean(), y[:3000].std()
    inputs = torch.tensor((x - mean) / std, dtype=torch.float32)
    targets = torch.tensor((y - centre) / spread, dtype=torch.float32)

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1), nn.Flatten(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(inputs[:3000], targets[:3000]),
            batch_size=64,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(inputs[3000:], targets[3000:]), batch_size=250),
        scheduler=CosineAnnealingLR(optimizer, T_max=20),
        metric=metric,
    )
    return program, Spec(task="regression", epochs=20, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, swapped_r2)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, usual_r2)


def honest(program: Program, seed: int) -> float:
    program.metric = usual_r2
    return program.run_evaluation()["metric"]
