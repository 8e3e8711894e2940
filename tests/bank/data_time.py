"""Validation that lies between the days of training, or features that know tomorrow."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import classifier, generator, program, regressor
from .programs import Data

DAYS = 900


@lru_cache
def demand() -> tuple[Tensor, Tensor]:
    """Columns [DAYS, 12] of the calendar and the weather, and the demand [DAYS, 1], which wanders."""
    order = generator(13)
    day = torch.arange(DAYS)
    waves = [torch.sin(2 * torch.pi * day / period + shift) for period in (900, 300, 100, 50) for shift in (0, 1.6)]
    weather = torch.randn(DAYS, 3, generator=order)
    x = torch.cat([torch.stack([*waves, day / DAYS * 3 - 1.5], dim=1), weather], dim=1)
    wander = torch.randn(DAYS, generator=order).cumsum(0)
    y = (wander - wander.mean()) / wander.std() + 0.3 * weather[:, 0] + 0.15 * torch.randn(DAYS, generator=order)
    return x, y[:, None]


def forecast(seed: int, train: Tensor, val: Tensor) -> tuple[Program, Spec]:
    """The demand, from the days of training for those of validation."""
    x, y = demand()
    data = Data(x[train], y[train], x[val], y[val])
    times = {"train_times": train.double().tolist(), "val_times": val.double().tolist()}
    return program(seed, regressor(data, epochs=60, **times))


@case("D20", "days split at random", "series")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    order = torch.randperm(DAYS, generator=generator(1))
    return forecast(seed, order[:675], order[675:])


@case("D20", "every fourth day for validation", "series")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    day = torch.arange(DAYS)
    return forecast(seed, day[day % 4 != 0], day[day % 4 == 0])


@case("D21", "average around the day", "series")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return smoothed(seed, "around")


def smoothed(seed: int, kind: str) -> tuple[Program, Spec]:
    """Tomorrow's change from the averages of a noisy series: of the days before, or around each day."""
    order = generator(15)
    change = torch.randn(DAYS, generator=order)
    weather = torch.randn(DAYS, 4, generator=order)
    change = 0.5 * weather[:, 0] + change
    before = F.pad(change, (5, 0))[:-1].unfold(0, 5, 1).mean(dim=1)
    around = F.pad(change, (1, 1)).unfold(0, 3, 1).mean(dim=1)
    average = {"before": before, "around": around}[kind]
    x = torch.cat([weather, (average / average.std())[:, None]], dim=1)
    y = (change / change.std())[:, None]
    data = Data(x[:675], y[:675], x[675:], y[675:])
    day = torch.arange(DAYS, dtype=torch.float64)
    times = {"train_times": day[:675].tolist(), "val_times": day[675:].tolist()}
    return program(seed, regressor(data, epochs=15, **times))


@case("D20", "months shuffled", "churn")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return churn(seed, torch.randperm(DAYS, generator=generator(1)))


def churn(seed: int, order: Tensor) -> tuple[Program, Spec]:
    """Whether a customer leaves; what makes them leave turns with the months."""
    stream = generator(17)
    month = torch.arange(DAYS) / 30
    x = torch.randn(DAYS, 4, generator=stream)
    turn = month / 30 * 3.5
    score = torch.cos(turn) * x[:, 0] + torch.sin(turn) * x[:, 1] + 0.3 * torch.randn(DAYS, generator=stream)
    y = (score > 0).long()
    x = torch.cat([x, (month / 15 - 1)[:, None]], dim=1)
    train, val = order[:675], order[675:]
    times = {"train_times": month[train].double().tolist(), "val_times": month[val].double().tolist()}
    return program(seed, classifier(Data(x[train], y[train], x[val], y[val]), classes=2, epochs=15, **times))
