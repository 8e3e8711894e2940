"""Six activities from windows of a wrist-worn sensor (six channels, 64 steps), 1-d convolutions.

Fault: the recordings come as (window, time, channel) and the convolution wants (window, channel, time). The
author gets that shape with `reshape`, which leaves the numbers in their old order in memory, so that each
"channel" is a short stretch of time with all sensors interleaved. The shapes fit, so nothing complains. Common
wherever somebody fixes a shape error by trying `view` or `reshape` until it goes away, instead of `permute`.

Measured (seeds 0 and 1): validation accuracy 0.37 and 0.31 after 10 epochs (one class in six by chance: 0.17);
twin 0.98 and 0.93.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)

CLASSES, CHANNELS, STEPS = 6, 6, 64


def record(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Windows (count, time, channel) and their activities: in each activity another axis swings faster."""
    activity = torch.randint(CLASSES, (count,), generator=generator)
    faster = F.one_hot(activity, CHANNELS)
    pace = 0.28 + 0.14 * faster + 0.02 * torch.randn(count, CHANNELS, generator=generator)
    start = 2 * math.pi * torch.rand(count, 1, CHANNELS, generator=generator)
    swing = (pace[:, None] * torch.arange(STEPS)[None, :, None] + start).sin()
    return swing + 0.6 * torch.randn(count, STEPS, CHANNELS, generator=generator), activity


def channels_first(windows: Tensor, interleaved: bool) -> Tensor:
    """(window, time, channel) as (window, channel, time)."""
    if interleaved:
        return windows.reshape(len(windows), CHANNELS, STEPS)
    return windows.permute(0, 2, 1).contiguous()


def accuracy(logits: Tensor, activity: Tensor) -> float:
    """Share of windows recognised."""
    return (logits.argmax(1) == activity).float().mean().item()


def build(seed: int, interleaved: bool) -> tuple[Program, Spec]:
    """The program, with the axes interleaved or in order."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train_x, train_y = record(1200, generator)
    val_x, val_y = record(600, generator)
    mean, std = train_x.mean((0, 1)), train_x.std((0, 1))
    train_x = channels_first((train_x - mean) / std, interleaved)
    val_x = channels_first((val_x - mean) / std, interleaved)

    model = nn.Sequential(
        nn.Conv1d(CHANNELS, 24, 7, padding=3),
        nn.BatchNorm1d(24),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(24, 32, 5, padding=2),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(TensorDataset(train_x, train_y), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val_x, val_y), 200),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=CLASSES, epochs=10)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, interleaved=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the axes exchanged properly."""
    return build(seed, interleaved=False)
