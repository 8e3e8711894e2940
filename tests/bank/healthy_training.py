"""Training that is meant to be as it is: large rates, schedules, accumulation, clipping, plateaus, two players."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, LambdaLR, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import BASES, PARTS, Data, Parts, accuracy, changed, make


class Players(nn.Module):
    """Draws points in the plane, and tells them from real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, noise: Tensor) -> Tensor:
        return self.generator(noise)


def play(p: Program, batch: tuple[Tensor]) -> None:
    """One step of each."""
    real, (of_generator, of_discriminator) = batch[0], p.optimizers
    fake = p.model.generator(torch.randn(len(real), 4))
    of_discriminator.zero_grad()
    wrong = F.softplus(p.model.discriminator(fake.detach())) + F.softplus(-p.model.discriminator(real))
    wrong.mean().backward()
    of_discriminator.step()
    of_generator.zero_grad()
    F.softplus(-p.model.discriminator(fake)).mean().backward()
    of_generator.step()


def play_least_squares(p: Program, batch: tuple[Tensor]) -> None:
    """One step of each, with squared errors."""
    real, (of_generator, of_discriminator) = batch[0], p.optimizers
    with torch.no_grad():
        fake = p.model.generator(torch.randn(len(real), 4))
    of_discriminator.zero_grad()
    wrong = p.model.discriminator(fake).square() + (p.model.discriminator(real) - 1).square()
    wrong.mean().backward()
    of_discriminator.step()
    of_generator.zero_grad()
    drawn = p.model.generator(torch.randn(len(real), 4))
    (p.model.discriminator(drawn) - 1).square().mean().backward()
    of_generator.step()


@torch.no_grad()
def distance_of_means(p: Program) -> dict[str, float]:
    """How far the drawn points' mean and deviation are from those of real points."""
    real = torch.cat([batch[0] for batch in p.val_loader])
    drawn = p.model.generator(torch.randn(500, 4, generator=torch.Generator().manual_seed(0)))
    mean = (real.mean(dim=0) - drawn.mean(dim=0)).norm()
    return {"mean": float(mean), "deviation": float((real.std(dim=0) - drawn.std(dim=0)).norm())}


def game(seed: int, step: Callable[[Program, tuple[Tensor]], None]) -> tuple[Program, Spec]:
    """Two players and points around (2, -1)."""
    points = torch.randn(1200, 2, generator=torch.Generator().manual_seed(2)) * 0.5 + torch.tensor([2.0, -1.0])
    torch.manual_seed(seed)
    model = Players()
    optimizers = [
        torch.optim.Adam(model.generator.parameters(), lr=2e-3, betas=(0.5, 0.99)),
        torch.optim.Adam(model.discriminator.parameters(), lr=2e-3, betas=(0.5, 0.99)),
    ]
    order = torch.Generator().manual_seed(seed)
    train_loader = DataLoader(TensorDataset(points[:1000]), 50, shuffle=True, generator=order)
    val_loader = DataLoader(TensorDataset(points[1000:]), 100)
    program = Program(
        model,
        optimizers,
        None,
        train_loader,
        val_loader,
        unpack=lambda batch: (torch.randn(len(batch[0]), 4), batch[0]),
        step=step,
        evaluate=distance_of_means,
    )
    return program, Spec(epochs=60)


@case("K03", "two networks that learn in turns", "game")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return game(seed, play)


@case("K03", "squared errors", "game")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return game(seed, play_least_squares)


def normed_digits() -> nn.Module:
    """For digits, with norms."""
    return nn.Sequential(
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)),
    )


@case("K07", "SGD with 0.3 and norms", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.3)

    # 900 examples: a last batch of four would disturb the norms.
    parts = changed(base, model=normed_digits, optimizer=sgd, batch_size=60)
    return make(base, seed, parts=parts)


@case("K07", "SGD with 0.1 and norms", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)

    spec = replace(PARTS[base].spec, epochs=32)
    return make(base, seed, spec, changed(base, optimizer=sgd))


def train_by_steps(p: Program) -> None:
    """One epoch; the schedule goes on after each batch."""
    p.model.train()
    for x, y in p.train_loader:
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.step()
        p.scheduler.step()


@case("K07", "one cycle up to 1", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = changed(base, model=normed_digits, optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.04))
    program, spec = make(base, seed, parts=parts, train_epoch=train_by_steps)
    # One more: a schedule that is asked for a step after its last one raises.
    total = (spec.epochs + 1) * len(program.train_loader)
    program.scheduler = OneCycleLR(program.optimizer, max_lr=1.0, total_steps=total, cycle_momentum=False)
    return program, replace(spec, scheduler_steps="batch")


@case("K23", "warm-up from zero", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = make(base, seed, train_epoch=train_by_steps)
    program.scheduler = LambdaLR(program.optimizer, lambda step: min(1.0, step / 15))
    return program, replace(spec, scheduler_steps="batch")


@case("K23", "warm restarts", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    # The run ends where a cycle does.
    epochs = {"digits": 12, "shapes": 12, "sequence": 28, "regression": 28}[base]
    program, spec = make(base, seed)
    program.scheduler = CosineAnnealingWarmRestarts(program.optimizer, T_0=4, T_mult=2)
    return program, replace(spec, epochs=epochs, scheduler_steps="epoch")


def train_accumulated(p: Program) -> None:
    """One epoch of steps after four micro-batches each."""
    p.model.train()
    p.optimizer.zero_grad()
    for i, (x, y) in enumerate(p.train_loader):
        (p.loss_fn(p.model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            p.optimizer.step()
            p.optimizer.zero_grad()


@case("K13", "four micro-batches for a step", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    # The last micro-batch is as large as the others and the last step has all four.
    data = PARTS[base].data()
    data = replace(data, x=data.x[:768], y=data.y[:768])
    parts = changed(base, data=lambda: data, batch_size=16)
    return make(base, seed, replace(PARTS[base].spec, accumulate=4), parts, train_epoch=train_accumulated)


@case("K13", "sums divided by the examples of the step", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    data = replace(data, x=data.x[:768], y=data.y[:768])

    def train_epoch(p: Program) -> None:
        p.model.train()
        batches = iter(p.train_loader)
        while together := [batch for _, batch in zip(range(4), batches, strict=False)]:
            examples = sum(len(y) for _, y in together)
            for x, y in together:
                (p.loss_fn(p.model(x), y) * (len(y) / examples)).backward()
            p.optimizer.step()
            p.optimizer.zero_grad()

    parts = changed(base, data=lambda: data, batch_size=16)
    return make(base, seed, replace(PARTS[base].spec, accumulate=4), parts, train_epoch=train_epoch)


def parity_data(bits: int) -> Data:
    """1,200 and 400 rows of ten signs; the class is whether an odd number of the first is positive."""
    x = torch.randint(2, (1600, 10), generator=torch.Generator().manual_seed(1))
    y = x[:, :bits].sum(dim=1) % 2
    signs = 2.0 * x - 1
    return Data(signs[:1200], y[:1200], signs[1200:], y[1200:])


PARITY = Parts(
    lambda: parity_data(4),
    lambda: nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 2)),
    F.cross_entropy,
    lambda model: torch.optim.AdamW(model.parameters(), lr=4e-3),
    accuracy,
    Spec(task="classification", classes=2, epochs=30),
)


@case("K34", "parity of four bits", "parity")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=PARITY)


@case("K34", "parity of two bits, tanh and SGD", "parity")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = replace(
        PARITY,
        data=lambda: parity_data(2),
        model=lambda: nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)),
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9),
        spec=replace(PARITY.spec, epochs=40),
    )
    return make(base, seed, parts=parts)
