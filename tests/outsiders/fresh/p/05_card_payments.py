"""Twelve figures of a card payment tell whether it is a fraud (3 % are).

Fault: validation reports plain accuracy at the threshold of one half, which is as high for a program that never
says fraud. The twin reports average precision. Nothing else differs.

Measured (seeds 0 and 1): the faulty program reports an accuracy of 0.970 and 0.974, where never saying fraud has
0.970 and 0.972; it finds 12 % and 16 % of the frauds. The twin, with the same weights, reports 0.367 and 0.361
(guessing: 0.03).
"""

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
SPEC = Spec(task="multi-label", classes=1, epochs=10)


def payments(rng, n):
    """Figures of payments (amounts and counts are skewed) and whether each is a fraud."""
    z = rng.normal(size=(n, 12))
    risk = (
        1.3 * z[:, 0]
        + 1.2 * z[:, 1] * (z[:, 2] > 0)
        + 0.9 * np.abs(z[:, 3])
        - 0.9 * z[:, 4]
        + 0.6 * rng.logistic(size=n)
    )
    x = z.copy()
    x[:, :4] = np.sign(z[:, :4]) * np.expm1(np.abs(z[:, :4])) * np.array([40.0, 3.0, 5.0, 1.0])
    return x, (risk > 4.9).astype(np.float32)


def prepared(x):
    """The skewed figures on a logarithmic scale."""
    x = x.copy()
    x[:, :4] = np.sign(x[:, :4]) * np.log1p(np.abs(x[:, :4]) / np.array([40.0, 3.0, 5.0, 1.0]))
    return x


def accuracy(outputs, targets):
    return ((outputs > 0) == (targets > 0.5)).float().mean().item()


def average_precision(outputs, targets):
    return float(average_precision_score(targets[:, 0].numpy(), outputs[:, 0].numpy()))


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    (x_train, y_train), (x_val, y_val) = payments(rng, 20000), payments(rng, 8000)
    x_train, x_val = prepared(x_train), prepared(x_val)
    mean, std = x_train.mean(0), x_train.std(0)
    train, val = (
        TensorDataset(torch.tensor((x - mean) / std, dtype=torch.float32), torch.tensor(y)[:, None])
        for x, y in ((x_train, y_train), (x_val, y_val))
    )
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, 256, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 1000),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=accuracy if faulty else average_precision,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
