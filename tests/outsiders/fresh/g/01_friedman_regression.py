"""Regress the Friedman function of ten uniform features with an MLP, SGD and a step-wise falling rate.

Fault: `scheduler.step()` stands inside the loop over batches instead of after it, one indentation too deep: the author
moved it next to `optimizer.step()`, as tutorials for OneCycleLR have it. `StepLR(step_size=15)` was meant in epochs, so
the rate falls tenfold every 15 batches and is as good as zero before the second epoch: training stops, with a loss that
looks like a plateau.

Measured (seeds 0 and 1): validation R2 0.724 and 0.723 faulty, 0.942 and 0.940 repaired; validation MSE 0.252 and 0.282
against 0.053 and 0.061.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)
EPOCHS = 40


def _data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 10, generator=generator)
    y = 10 * torch.sin(torch.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, (y + torch.randn(count, generator=generator)).unsqueeze(1)


def _r2(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def _batch(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    inputs, targets = batch
    program.optimizers[0].zero_grad()
    loss = nn.functional.mse_loss(program.model(inputs), targets)
    loss.backward()
    program.optimizers[0].step()


def _epoch_faulty(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader or ():
        _batch(program, batch)
        program.scheduler.step()


def _epoch_right(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader or ():
        _batch(program, batch)
    program.scheduler.step()


def _build(seed: int, train_epoch: Callable[[Program], None]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = _data(2000, generator)
    x_val, y_val = _data(500, generator)
    mean, std = x.mean(0), x.std(0)
    y_mean, y_std = y.mean(), y.std()
    train = TensorDataset((x - mean) / std, (y - y_mean) / y_std)
    val = TensorDataset((x_val - mean) / std, (y_val - y_mean) / y_std)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 256),
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, step_size=15, gamma=0.1),
        step=_batch,
        train_epoch=train_epoch,
        metric=_r2,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _epoch_faulty)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _epoch_right)
