"""The function given to LambdaLR returns the learning rate itself where a factor of it is expected: the two are
multiplied, and the denoising autoencoder trains at a hundredth of the rate that was meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)
EPOCHS, BATCH, TRAIN, LENGTH = 20, 32, 800, 64
RATE = 1e-2


class Denoiser(nn.Module):
    """A convolutional autoencoder of signals."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(width, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(width, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(width, 1, 5, padding=2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


def signals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy and clean sums of two tones."""
    time = torch.linspace(0, 1, LENGTH)
    clean = torch.zeros(count, 1, LENGTH)
    for low, high in ((1.0, 3.0), (4.0, 7.0)):
        tone = low + (high - low) * torch.rand(count, 1, 1, generator=generator)
        phase = 2 * math.pi * torch.rand(count, 1, 1, generator=generator)
        clean = clean + torch.sin(2 * math.pi * tone * time + phase)
    return clean + 0.8 * torch.randn(clean.shape, generator=generator), clean


def rate_at(step: int) -> float:
    """Warm-up and a half cosine."""
    warm, total = 40, EPOCHS * (TRAIN // BATCH)
    return RATE * min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))


def factor_at(step: int) -> float:
    """Warm-up and a half cosine."""
    return rate_at(step) / RATE


def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    noisy, clean = batch
    program.optimizers[0].zero_grad()
    program.loss_fn(program.outputs(noisy), clean).backward()
    program.optimizers[0].step()
    program.scheduler.step()


def train_epoch(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)


def explained(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, curve: Callable[[int], float]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train, val = TensorDataset(*signals(TRAIN, generator)), TensorDataset(*signals(400, generator))
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    program = Program(
        model=model,
        optimizer=optimizer,
        scheduler=LambdaLR(optimizer, curve),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        step=step,
        train_epoch=train_epoch,
        metric=explained,
    )
    return program, Spec(task="regression", epochs=EPOCHS, scheduler_steps="batch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, rate_at)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, factor_at)
