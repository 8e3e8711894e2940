"""Forecast of the next value of a noisy series from a window of its smoothed past, with a GRU.

Fault: the input is smoothed by a centred moving average (np.convolve(..., mode="same")), so that the last values of a
window already contain the value to be forecast, in training and in validation. Nothing crashes, the split by time is
right, and all curves look better than they should; with what is known at the time (a trailing average) the forecast is
poor.

R2 after 15 epochs (seeds 0, 1): twin 0.57, 0.49, and the same on honest inputs; faulty reports 0.94, 0.93, and has
0.03, -0.05 on honest inputs.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
WINDOW, WIDTH, LENGTH, CUT = 24, 5, 2000, 1500


def series(seed: int) -> np.ndarray:
    """A season, a slow drift that comes back, and noise."""
    rng = np.random.default_rng(seed)
    slow = np.zeros(LENGTH)
    for step in range(1, LENGTH):
        slow[step] = 0.9 * slow[step - 1] + 0.3 * rng.normal()
    values = np.sin(2 * np.pi * np.arange(LENGTH) / 12) + slow + 0.6 * rng.normal(size=LENGTH)
    return (values - values[:CUT].mean()) / values[:CUT].std()


def smooth(values: np.ndarray, centred: bool) -> np.ndarray:
    """Moving average."""
    kernel = np.ones(WIDTH) / WIDTH
    if centred:
        return np.convolve(values, kernel, mode="same")
    return np.convolve(values, kernel, mode="full")[: len(values)]


def windows(values: np.ndarray, centred: bool, first: int, last: int) -> tuple[Tensor, Tensor, list[float]]:
    """Windows of the smoothed series that end before the times first..last, and the raw values at these times."""
    smoothed = smooth(values, centred)
    times = range(first, last)
    x = np.stack([smoothed[time - WINDOW : time] for time in times])
    y = np.array([values[time] for time in times])
    return (
        torch.tensor(x, dtype=torch.float32)[..., None],
        torch.tensor(y, dtype=torch.float32)[:, None],
        list(map(float, times)),
    )


class Forecaster(nn.Module):
    """GRU and a line."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0][:, -1])


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Share of the variance that is explained."""
    return 1 - float(((outputs - targets) ** 2).mean() / targets.var(unbiased=False))


def build(seed: int, centred: bool) -> tuple[Program, Spec]:
    """The program."""
    values = series(seed)
    x, y, times = windows(values, centred, WINDOW + WIDTH, CUT)
    val_x, val_y, val_times = windows(values, centred, CUT + WINDOW + WIDTH, LENGTH)
    torch.manual_seed(seed)
    model = Forecaster()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        val_loader=DataLoader(TensorDataset(val_x, val_y), batch_size=128),
        metric=r2,
    )
    return program, Spec(task="regression", epochs=15, train_times=times, val_times=val_times)


def honest(program: Program, seed: int) -> float:
    """R2 with what is known at the time of the forecast."""
    x, y, _ = windows(series(seed), False, CUT + WINDOW + WIDTH, LENGTH)
    program.model.eval()
    with torch.no_grad():
        return r2(program.model(x), y)


def make(seed: int) -> tuple[Program, Spec]:
    """Centred average: the window knows its target."""
    return build(seed, True)


def twin(seed: int) -> tuple[Program, Spec]:
    """Trailing average."""
    return build(seed, False)
