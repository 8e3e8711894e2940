"""Regression on the ten columns of the Friedman benchmark; micro-batches of 8 are accumulated into batches of 64.

Fault: zero_grad is called for every micro-batch and not for every optimizer step, so that only the last of eight
micro-batches counts, at an eighth of its gradient. The twin zeroes the gradients after each optimizer step.

Measured (seeds 0 and 1): R2 0.815 and 0.803; twin 0.925 and 0.920.
"""

import torch
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)

MICRO_BATCH = 8
ACCUMULATE = 8


def accumulate_epoch(program: Program) -> None:
    program.model.train()
    program.optimizer.zero_grad()
    for i, batch in enumerate(program.train_loader):
        x, y = program.parts(batch)
        loss = program.loss_fn(program.model(x), y) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            program.optimizer.step()
            program.optimizer.zero_grad()


def accumulate_epoch_short(program: Program) -> None:
    program.model.train()
    for i, batch in enumerate(program.train_loader):
        program.optimizer.zero_grad()
        x, y = program.parts(batch)
        loss = program.loss_fn(program.model(x), y) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            program.optimizer.step()


def build(seed: int, epoch) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    features, target = make_friedman1(n_samples=2648, n_features=10, noise=1.0, random_state=seed)
    x = torch.tensor(features, dtype=torch.float32)
    y = torch.tensor(target, dtype=torch.float32).unsqueeze(1)
    train, val = slice(0, 2048), slice(2048, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()

    model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(x[train], y[train]),
            batch_size=MICRO_BATCH,
            shuffle=True,
            drop_last=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), batch_size=200),
        train_epoch=epoch,
        metric=lambda out, y: r2_score(y.numpy(), out.numpy()),
    )
    return program, Spec(task="regression", epochs=20, accumulate=ACCUMULATE)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, accumulate_epoch_short)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, accumulate_epoch)
