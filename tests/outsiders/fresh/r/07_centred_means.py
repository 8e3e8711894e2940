"""A network forecasts the electricity load of a district two hours ahead, from the last twelve hours, the hour of day,
the mean of the last six and of the last 24 hours. Trained on the past, validated on the following weeks.

Fault: the means are centred on the present hour (as `rolling(center=True)`), so they hold hours after it, the
forecast one among them. The twin's end at the present hour.

Measured (seeds 0 and 1): the faulty program reports a mean absolute error of 1.28 and 1.27 MW; on a fresh series, with
the part of the means that is known at the present hour, it has 5.86 and 5.92. The twin reports 2.97 and 2.90 and has
2.91 and 2.91.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
LAGS, AHEAD, HOURS = 12, 2, 24 * 170


def load_series(rng, hours=HOURS):
    """Hourly load in MW: day and week, and weather that drifts."""
    t = np.arange(hours)
    daily = 9 * np.sin(2 * np.pi * (t - 7) / 24) + 4 * np.sin(4 * np.pi * (t - 3) / 24)
    weekend = -6.0 * ((t // 24) % 7 >= 5)
    weather, shock = np.zeros(hours), rng.normal(0, 2.5, hours)
    for i in range(1, hours):
        weather[i] = 0.85 * weather[i - 1] + shock[i]
    return 80 + daily + weekend + weather + rng.normal(0, 0.8, hours)


def rolling_mean(series, window, centred):
    """Mean of a window that ends at, or is centred on, each hour; NaN where the window is not full."""
    padded = np.concatenate([np.full(window - 1, np.nan), np.convolve(series, np.ones(window) / window, "valid")])
    if centred:
        half = window // 2
        return np.concatenate([padded[half:], np.full(half, np.nan)])
    return padded


def table(series, centred):
    """Features, target and hour of each row."""
    means = [rolling_mean(series, window, centred) for window in (6, 24)]
    hours = np.arange(24, len(series) - 24)
    lags = np.stack([series[hours - lag] for lag in range(LAGS)], axis=1)
    clock = 2 * np.pi * ((hours % 24) / 24)
    x = np.column_stack([lags, np.sin(clock), np.cos(clock), *(mean[hours] for mean in means)])
    return x, series[hours + AHEAD], hours


def minus_mae(outputs, targets):
    return -(outputs - targets).abs().mean().item()


def build(seed, centred):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y, hours = table(load_series(rng), centred)
    cut = int(0.75 * len(y))
    ahead = cut + 48  # Nothing of training's last days in validation's first rows.
    x_mean, x_std, y_mean, y_std = x[:cut].mean(0), x[:cut].std(0), y[:cut].mean(), y[:cut].std()
    x = torch.tensor((x - x_mean) / x_std, dtype=torch.float32)
    y = torch.tensor((y - y_mean) / y_std, dtype=torch.float32)[:, None]
    model = nn.Sequential(nn.Linear(LAGS + 4, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train = TensorDataset(x[:cut], y[:cut])
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(x[ahead:], y[ahead:]), 256),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 15),
        metric=minus_mae,
    )
    return program, Spec(
        task="regression", epochs=15, train_times=hours[:cut].tolist(), val_times=hours[ahead:].tolist()
    )


def make(seed):
    return build(seed, True)


def twin(seed):
    return build(seed, False)
