"""The closure that LBFGS calls several times in one step never clears the gradients, so that each evaluation adds to
the one before: the search directions are built from sums of old gradients and the fit ends far too early.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
EPOCHS = 25


def friedman(count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Friedman's first function of ten features, five of which matter."""
    x = rng.uniform(size=(count, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = y + rng.normal(0, 0.7, size=count)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    """One outer step of LBFGS on the whole training set."""
    inputs, targets = batch
    optimizer = program.optimizers[0]

    def closure() -> Tensor:
        loss = program.loss_fn(program.outputs(inputs), targets)
        loss.backward()
        return loss

    optimizer.zero_grad()
    optimizer.step(closure)


def step_cleared(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    """One outer step of LBFGS on the whole training set."""
    inputs, targets = batch
    optimizer = program.optimizers[0]

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = program.loss_fn(program.outputs(inputs), targets)
        loss.backward()
        return loss

    optimizer.step(closure)


def build(seed: int, one_step: Callable[[Program, tuple[Tensor, Tensor]], None]) -> tuple[Program, Spec]:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y = friedman(2000, rng)
    x_val, y_val = friedman(800, rng)
    mean, std, y_mean, y_std = x.mean(0), x.std(0), y.mean(), y.std()
    train = TensorDataset((x - mean) / std, (y - y_mean) / y_std)
    val = TensorDataset((x_val - mean) / std, (y_val - y_mean) / y_std)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.LBFGS(model.parameters(), max_iter=8, line_search_fn="strong_wolfe"),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=len(train)),
        val_loader=DataLoader(val, batch_size=400),
        step=one_step,
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, step)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, step_cleared)
