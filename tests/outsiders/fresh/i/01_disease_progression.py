"""Regression on the diabetes table: a small network predicts the standardised disease progression after one year.

Fault: The loss is written by hand and subtracts targets of shape (N,) from outputs of shape (N, 1): broadcasting gives
all N x N differences, so every prediction is drawn to every target of the batch. The built-in losses would warn; a
hand-written Huber loss does not. The twin squeezes the outputs first.

Measured (seeds 0 and 1): validation R2 -0.01 and 0.04 with the fault, 0.35 and 0.44 in the twin (Huber loss 0.365 and
0.384, 0.240 and 0.221).
"""

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss", "model")
EPOCHS = 20


def datasets(seed):
    table = load_diabetes()
    x_train, x_val, y_train, y_val = train_test_split(table.data, table.target, test_size=0.25, random_state=seed)
    x_mean, x_std = x_train.mean(0), x_train.std(0)
    y_mean, y_std = y_train.mean(), y_train.std()

    def dataset(x, y):
        x = torch.tensor((x - x_mean) / x_std, dtype=torch.float32)
        y = torch.tensor((y - y_mean) / y_std, dtype=torch.float32)
        return TensorDataset(x, y)

    return dataset(x_train, y_train), dataset(x_val, y_val)


def huber(error, delta=1.0):
    size = error.abs()
    return torch.where(size < delta, 0.5 * error**2, delta * (size - 0.5 * delta)).mean()


def loss(outputs, targets):
    return huber(outputs - targets)


def loss_twin(outputs, targets):
    return huber(outputs.squeeze(1) - targets)


def r_squared(outputs, targets):
    residual = targets - outputs.squeeze(1)
    return float(1 - residual.square().sum() / (targets - targets.mean()).square().sum())


def build(seed, loss_fn):
    torch.manual_seed(seed)
    train, val = datasets(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=64),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss_twin)
