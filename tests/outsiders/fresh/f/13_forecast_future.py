"""Forecasting the next value of noisy series at every step with a stack of dilated causal convolutions.

Fault: each convolution is padded on both sides, and the surplus is cut off at the wrong end: `[..., surplus:]`
instead of `[..., :-surplus]`. Length and shapes are right, but each output sees later readings, among them the
one that is to be foretold. Reported errors are excellent; at the end of a series, where there is no later
reading, the forecast is poor. It comes about when the "chomp" of a temporal convolutional network is written from
memory.

Measured (seeds 0 and 1): reports an R2 of 0.986 and 0.992 after 15 epochs, but at the last step, where nothing
follows, it is 0.29 and 0.75; twin 0.805 and 0.807, at the last step 0.81 and 0.84.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")

STEPS, KERNEL, WIDTH = 60, 3, 16


def series(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Readings (count, 1, time) and, for each step, the reading of the next."""
    level = torch.zeros(count, STEPS + 21)
    shocks = torch.randn(count, STEPS + 21, generator=generator)
    for step in range(2, STEPS + 21):
        level[:, step] = 1.5 * level[:, step - 1] - 0.7 * level[:, step - 2] + 0.4 * shocks[:, step]
    readings = level[:, 20:] + 0.2 * torch.randn(count, STEPS + 1, generator=generator)
    return readings[:, None, :-1], readings[:, None, 1:]


class CausalConvolution(nn.Module):
    """A dilated convolution, padded and cut back to the length it was given."""

    def __init__(self, inputs: int, outputs: int, dilation: int, cut_start: bool) -> None:
        super().__init__()
        self.surplus = (KERNEL - 1) * dilation
        self.cut_start = cut_start
        self.convolution = nn.Conv1d(inputs, outputs, KERNEL, padding=self.surplus, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> the same with other channels."""
        x = self.convolution(x)
        return x[..., self.surplus :] if self.cut_start else x[..., : -self.surplus]


def forecaster(cut_start: bool) -> nn.Sequential:
    """Three dilated convolutions and a linear read-out for each step."""
    layers: list[nn.Module] = []
    inputs = 1
    for dilation in (1, 2, 4):
        layers += [CausalConvolution(inputs, WIDTH, dilation, cut_start), nn.ReLU()]
        inputs = WIDTH
    return nn.Sequential(*layers, nn.Conv1d(WIDTH, 1, 1))


def r_squared(forecast: Tensor, following: Tensor) -> float:
    """Share of the variance explained."""
    return (1 - (forecast - following).square().mean() / following.var(unbiased=False)).item()


def build(seed: int, cut_start: bool) -> tuple[Program, Spec]:
    """The program, cutting off the start or the end."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = TensorDataset(*series(600, generator))
    val = TensorDataset(*series(300, generator))

    model = forecaster(cut_start)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, 32, shuffle=True, generator=generator),
        val_loader=DataLoader(val, 100),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=15, causal=True)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, cut_start=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same cut at the end."""
    return build(seed, cut_start=False)
