"""A recurrent network forecasts the next hour of an electricity load from the 24 hours before.

Fault: off by one in cutting the windows: the target is `series[i + WINDOW - 1]`, the last value of the window itself,
and not `series[i + WINDOW]`. The network learns to copy its last input, the reported error is next to nothing, and as a
forecast its output is as good as "the same as now".

Measured (seeds 0 and 1): reported RMSE 0.014 and 0.012 faulty, 0.204 and 0.222 repaired. Measured on the real
next hour the faulty program has 0.381 and 0.398, as has "the same as now" (0.382 and 0.399).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels", "inputs")
EPOCHS = 12
WINDOW, HOURS, SPLIT = 24, 3000, 2400


class Forecaster(nn.Module):
    """A GRU over the window and a linear layer on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, windows: Tensor) -> Tensor:
        states, _ = self.gru(windows.unsqueeze(2))
        return self.head(states[:, -1]).squeeze(1)


def _load(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    hour = torch.arange(float(HOURS))
    day = torch.sin(2 * torch.pi * hour / 24) + 0.6 * torch.sin(4 * torch.pi * hour / 24 + 1)
    week = 0.4 * (hour // 24 % 7 >= 5)
    drift, level = torch.zeros(HOURS), 0.0
    for i, shock in enumerate(torch.randn(HOURS, generator=generator).tolist()):
        level = 0.9 * level + 0.12 * shock
        drift[i] = level
    series = 50 + 10 * (day - week + drift) + 1.0 * torch.randn(HOURS, generator=generator)
    return (series - series[:SPLIT].mean()) / series[:SPLIT].std()


def _windows(series: Tensor, ahead: int) -> TensorDataset:
    starts = range(len(series) - WINDOW)
    inputs = torch.stack([series[i : i + WINDOW] for i in starts])
    targets = torch.stack([series[i + WINDOW - 1 + ahead] for i in starts])
    return TensorDataset(inputs, targets)


def _negative_rmse(outputs: Tensor, targets: Tensor) -> float:
    return -(outputs - targets).pow(2).mean().sqrt().item()


def _build(seed: int, ahead: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    series = _load(seed)
    train_set, val_set = _windows(series[:SPLIT], ahead), _windows(series[SPLIT:], ahead)  # no hour in both
    model = Forecaster()
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train_set, 64, shuffle=True, generator=generator),
        val_loader=DataLoader(val_set, 256),
        metric=_negative_rmse,
    )
    spec = Spec(
        task="regression",
        epochs=EPOCHS,
        train_times=[float(i) for i in range(len(train_set))],
        val_times=[float(SPLIT + i) for i in range(len(val_set))],
    )
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, ahead=0)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, ahead=1)
