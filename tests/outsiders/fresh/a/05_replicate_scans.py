"""Each sample was scanned eight times and the split is over scans instead of samples: nearly every validation scan has
a replicate in training, and the error on samples never seen is much larger than reported.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("split",)
SAMPLES, REPLICATES, CHANNELS = 400, 8, 60


def scan(samples: int, seed: int, draw: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Infrared spectra of grain: protein content under overlapping bands of other substances."""
    rng = np.random.default_rng((seed, draw))
    grid = np.linspace(0, 1, CHANNELS)
    shape = np.random.default_rng(seed)
    bands = np.exp(-(((grid - shape.uniform(0.1, 0.9, (7, 1))) / shape.uniform(0.06, 0.15, (7, 1))) ** 2))
    content = rng.gamma(4, 0.25, (samples, 7))
    laboratory = 11 + 2.0 * content[:, 0] + rng.normal(0, 0.42, samples)
    clean = np.repeat(content @ bands, REPLICATES, axis=0)
    return clean + rng.normal(0, 0.01, clean.shape), np.repeat(laboratory, REPLICATES)


class SpectrumNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(CHANNELS, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).squeeze(-1)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return 1.0 - float(((outputs - targets) ** 2).mean() / targets.var(correction=0))


def build(seed: int, unit: int) -> tuple[Program, Spec]:
    x, y = scan(SAMPLES, seed)
    order = np.random.default_rng(seed + 1).permutation(len(x) // unit)
    held_out = np.isin(np.arange(len(x)) // unit, order[: len(order) // 4])
    mean, std = x[~held_out].mean(0), x[~held_out].std(0)
    centre, spread = y[~held_out].mean(), y[~held_out].std()

    def dataset(rows: np.ndarray) -> TensorDataset:
        return TensorDataset(
            torch.tensor((x[rows] - mean) / std, dtype=torch.float32),
            torch.tensor((y[rows] - centre) / spread, dtype=torch.float32),
        )

    torch.manual_seed(seed)
    model = SpectrumNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.3)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=CosineAnnealingLR(optimizer, T_max=20),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            dataset(~held_out), batch_size=100, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(dataset(held_out), batch_size=250),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=20, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, unit=1)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, unit=REPLICATES)
