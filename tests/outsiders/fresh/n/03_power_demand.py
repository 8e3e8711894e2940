"""A GRU forecasts the next hour's demand for power from a day of temperature, wind and demand, split by time. The
error is reported in MW.

Fault: the evaluation turns forecasts back into MW with the mean and standard deviation of the temperature column.
The twin takes those of the demand column. Training, targets and loss are the same in both.

Measured (seeds 0 and 1): reported error 931 and 931 MW and R2 -52 and -60; the same forecasts, turned back rightly,
and the twin's: 20 and 19 MW, R2 0.96 and 0.96.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
HOURS, WINDOW, GAP = 24 * 220, 24, 48
TEMPERATURE, WIND, DEMAND = 0, 1, 2
CUT = int(HOURS * 0.8)
TRAIN_HOURS, VAL_HOURS = np.arange(WINDOW, CUT), np.arange(CUT + GAP, HOURS)
SPEC = Spec(
    task="regression", epochs=8, train_times=TRAIN_HOURS.tolist(), val_times=VAL_HOURS.tolist(), scheduler_steps="epoch"
)


def measurements(seed):
    """Temperature in degrees, wind in m/s and demand in MW, hour by hour."""
    rng = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    weather, gusts, rest = np.zeros(HOURS), np.zeros(HOURS), np.zeros(HOURS)
    for t in range(1, HOURS):
        weather[t] = 0.97 * weather[t - 1] + 0.6 * rng.normal()
        gusts[t] = 0.9 * gusts[t - 1] + 0.5 * rng.normal()
        rest[t] = 0.8 * rest[t - 1] + 18 * rng.normal()
    day = 2 * np.pi * hour / 24
    temperature = 12 + 4 * np.sin(day - 2) + weather
    wind = 5 + np.abs(gusts) + 0.5 * np.sin(day)
    weekend = (hour // 24) % 7 >= 5
    demand = 900 + 160 * np.sin(day - 1.5) + 60 * np.sin(2 * day) - 90 * weekend
    demand = demand + 9 * np.abs(temperature - 15) + 6 * wind + rest
    return np.stack([temperature, wind, demand], 1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 32, batch_first=True)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, windows):
        return self.head(self.gru(windows)[0][:, -1])


def build(seed, column):
    torch.manual_seed(seed)
    series = measurements(seed)
    mean, std = series[:CUT].mean(0), series[:CUT].std(0)
    scaled = (series - mean) / std

    def examples(hours):
        windows = np.stack([scaled[hour - WINDOW : hour] for hour in hours])
        targets, megawatts = scaled[hours, DEMAND], series[hours, DEMAND]
        parts = windows, targets[:, None], megawatts
        return TensorDataset(*(torch.tensor(part, dtype=torch.float32) for part in parts))

    def evaluate(program):
        """Mean absolute error in MW and the share of variance that is explained."""
        program.model.eval()
        forecasts, actual, losses = [], [], []
        with torch.no_grad():
            for windows, targets, megawatts in program.val_loader:
                outputs = program.outputs(windows)
                losses.append(program.loss_fn(outputs, targets).item() * len(targets))
                forecasts.append(outputs[:, 0] * std[column] + mean[column])
                actual.append(megawatts)
        forecasts, actual = torch.cat(forecasts), torch.cat(actual)
        explained = 1 - ((forecasts - actual) ** 2).mean() / actual.var(unbiased=False)
        mae = (forecasts - actual).abs().mean()
        return {"loss": sum(losses) / len(actual), "mae_mw": mae.item(), "r2": explained.item()}

    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(examples(TRAIN_HOURS), batch_size=64, shuffle=True),
        val_loader=DataLoader(examples(VAL_HOURS), batch_size=256),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=SPEC.epochs),
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, column=TEMPERATURE)


def twin(seed):
    return build(seed, column=DEMAND)
