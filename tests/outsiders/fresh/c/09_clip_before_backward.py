"""Regression on sequences with a plain RNN; a few targets are glitches of the sensor, so gradients are clipped.

Fault: clip_grad_norm_ stands between zero_grad and backward, where there are no gradients (they are None): it clips
nothing. Nothing crashes, the line is there for all to see, and each glitch throws the weights.

R2 of validation (without glitches) after 15 epochs (seeds 0, 1): twin 0.94, 0.91; faulty -1.40, -4.52.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Batch, Program, Spec

PART = ("step",)
LENGTH, MAX_NORM = 12, 1.0


class Reader(nn.Module):
    """Plain RNN and a line."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(2, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0][:, -1])


def data(count: int, generator: torch.Generator, glitches: bool) -> TensorDataset:
    """The target is a sum that forgets slowly of the values where the second channel is 1."""
    values = torch.randn(count, LENGTH, generator=generator)
    marks = (torch.rand(count, LENGTH, generator=generator) < 0.5).float()
    forget = 0.8 ** torch.arange(LENGTH - 1, -1, -1)
    y = (values * marks * forget).sum(1, keepdim=True) / 1.3
    if glitches:
        hit = torch.rand(count, 1, generator=generator) < 0.004
        y = torch.where(hit, 30 * torch.randn(count, 1, generator=generator).sign(), y)
    return TensorDataset(torch.stack([values, marks], 2), y)


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Share of the variance that is explained."""
    return 1 - float(((outputs - targets) ** 2).mean() / targets.var(unbiased=False))


def build(seed: int, after: bool) -> tuple[Program, Spec]:
    """The program."""
    generator = torch.Generator().manual_seed(seed)
    train, val = data(2000, generator, True), data(500, generator, False)
    torch.manual_seed(seed)
    model = Reader()

    def step(program: Program, batch: Batch) -> None:
        x, y = program.parts(batch)
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.outputs(x), y)
        if not after:
            nn.utils.clip_grad_norm_(program.model.parameters(), MAX_NORM)
        loss.backward()
        if after:
            nn.utils.clip_grad_norm_(program.model.parameters(), MAX_NORM)
        program.optimizer.step()

    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        step=step,
        metric=r2,
    )
    return program, Spec(task="regression", epochs=15, max_norm=MAX_NORM)


def make(seed: int) -> tuple[Program, Spec]:
    """Clips what is not there yet."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Clips after backward."""
    return build(seed, True)
