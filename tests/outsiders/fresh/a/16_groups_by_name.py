"""The optimizer's groups are chosen by names that end in "weight" or "bias"; those of the LSTM end in "_l0", so that it
is in no group and stays as it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("optimizer",)
STEPS = 40


def load_curves(count: int, seed: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Power of a household in forty intervals; how long was the boiler on after the last time the washer ran?"""
    rng = np.random.default_rng((seed, draw))
    boiler = rng.random((count, STEPS)) < 0.45
    washer_end = rng.integers(8, STEPS - 8, count)
    washer = np.zeros((count, STEPS))
    washer[np.arange(count), washer_end] = 1.0
    after = np.arange(STEPS) > washer_end[:, None]
    x = np.stack([1.0 * boiler, washer], axis=-1) + rng.normal(0, 0.1, (count, STEPS, 2))
    return x, (boiler & after).sum(1) + rng.normal(0, 0.3, count)


class CurveModel(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(self.norm(states[:, -1])).squeeze(1)


def ends_with(name: str, ending: str) -> bool:
    return name.endswith(ending)


def last_part_starts_with(name: str, ending: str) -> bool:
    return name.rpartition(".")[2].startswith(ending)


def parameter_groups(model: nn.Module, matches: Callable[[str, str], bool]) -> list[dict]:
    """Weight decay for the matrices and none for biases and normalisation."""
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        if matches(name, "bias") or name.startswith("norm."):
            plain.append(parameter)
        elif matches(name, "weight"):
            decayed.append(parameter)
    return [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return 1.0 - float(((outputs - targets) ** 2).mean() / targets.var(correction=0))


def build(seed: int, matches: Callable[[str, str], bool]) -> tuple[Program, Spec]:
    (x_train, y_train), (x_val, y_val) = load_curves(1500, seed, 1), load_curves(500, seed, 2)
    mean, std, centre, spread = x_train.mean((0, 1)), x_train.std((0, 1)), y_train.mean(), y_train.std()

    def dataset(x: np.ndarray, y: np.ndarray) -> TensorDataset:
        return TensorDataset(
            torch.tensor((x - mean) / std, dtype=torch.float32),
            torch.tensor((y - centre) / spread, dtype=torch.float32),
        )

    torch.manual_seed(seed)
    model = CurveModel()
    optimizer = torch.optim.AdamW(parameter_groups(model, matches), lr=5e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            dataset(x_train, y_train), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(dataset(x_val, y_val), batch_size=250),
        scheduler=CosineAnnealingLR(optimizer, T_max=20),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=20, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ends_with)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, last_part_starts_with)
