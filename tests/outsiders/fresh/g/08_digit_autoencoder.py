"""Compress 8x8 digits to ten numbers and restore them with a fully connected autoencoder.

Fault: the hidden layers are kept in a Python list instead of `nn.ModuleList`, so `model.parameters()` does not have
them: they stay as they were drawn and are missing in checkpoints, while the first and last layers, which are
attributes, are trained. The loss falls well enough to raise no suspicion.

Measured (seeds 0 and 1): validation MSE 0.098 and 0.089 faulty, 0.055 and 0.052 repaired; explained variance 0.667 and
0.700 against 0.813 and 0.824.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)
EPOCHS = 40


class Autoencoder(nn.Module):
    """Encoder and decoder of several hidden layers each."""

    def __init__(self, collect: Callable[[list[nn.Module]], Iterable[nn.Module]]) -> None:
        super().__init__()
        self.first = nn.Linear(64, 96)
        self.encoder = collect([nn.Linear(96, 64), nn.Linear(64, 32), nn.Linear(32, 10)])
        self.decoder = collect([nn.Linear(10, 32), nn.Linear(32, 64), nn.Linear(64, 96)])
        self.last = nn.Linear(96, 64)

    def encode(self, pixels: Tensor) -> Tensor:
        """The code of a digit."""
        hidden = self.first(pixels)
        for layer in self.encoder:
            hidden = layer(nn.functional.elu(hidden))
        return hidden

    def forward(self, pixels: Tensor) -> Tensor:
        """The restored pixels."""
        hidden = self.encode(pixels)
        for layer in self.decoder:
            hidden = nn.functional.elu(layer(hidden))
        return self.last(hidden)


def _explained(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean(0)) ** 2).sum())


def _build(seed: int, collect: Callable[[list[nn.Module]], Iterable[nn.Module]]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    pixels, pixels_val = train_test_split(load_digits().data, test_size=0.25, random_state=seed)
    x = torch.tensor(pixels, dtype=torch.float32) / 8 - 1
    x_val = torch.tensor(pixels_val, dtype=torch.float32) / 8 - 1
    model = Autoencoder(collect)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(TensorDataset(x), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(x_val), 150),
        unpack=lambda batch: (batch[0], batch[0]),
        metric=_explained,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, list)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, nn.ModuleList)
