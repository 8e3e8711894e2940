"""Card fraud from twenty numeric features of a payment: four in a hundred payments are fraud, and the frauds are
repeated until the training data are balanced. An MLP with dropout, reported by the area under the ROC curve.

Fault: the frauds are repeated before the rows are split, so that copies of nearly every fraud are both in training
and in validation. The twin splits first and repeats frauds in training only. The test rows are never repeated.

Measured (seeds 0 and 1): area under the curve reported on validation 0.92 and 0.93, on test rows 0.80 and 0.81; the
twin reports 0.76 and 0.82, test 0.79 and 0.81.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "split"
FEATURES, ROWS, TEST_ROWS = 20, 8000, 5000
# Frauds are repeated in training on purpose, so that their share differs from what is met in use.
SPEC = Spec(task="multi-label", epochs=8, shift_expected=True)


def payments(rng, rows, direction):
    y = (rng.random(rows) < 0.04).astype(np.float32)
    x = rng.normal(size=(rows, FEATURES))
    x += y[:, None] * direction[0] * np.where(rng.random(rows) < 0.6, 1, 0)[:, None]
    x += y[:, None] * direction[1]
    x[:, :5] = np.exp(x[:, :5] * 0.5) * 40  # amounts
    return x.astype(np.float32), y


def repeat_frauds(x, y):
    """The rows with each fraud as often as balances the classes."""
    times = max(1, round((y == 0).sum() / (y == 1).sum()))
    rows = np.concatenate([np.flatnonzero(y == 0), np.repeat(np.flatnonzero(y == 1), times)])
    return x[rows], y[rows]


def split(rng, x, y):
    order = rng.permutation(len(x))
    cut = int(0.75 * len(x))
    return (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(2, FEATURES)) * np.array([[0.5], [0.3]])
    x, y = payments(rng, ROWS, direction)
    test = payments(rng, TEST_ROWS, direction)
    if faulty:
        train, val = split(rng, *repeat_frauds(x, y))
    else:
        train, val = split(rng, x, y)
        train = repeat_frauds(*train)

    def with_logs(x):
        return np.column_stack([np.log(x[:, :5]), x[:, 5:]])

    mean, std = with_logs(train[0]).mean(0), with_logs(train[0]).std(0)

    def dataset(x, y):
        x = (with_logs(x) - mean) / std
        return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None])

    model = nn.Sequential(
        nn.Linear(FEATURES, 64),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(32, 1),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(
            dataset(*train), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(dataset(*val), batch_size=256),
        test_loader=DataLoader(dataset(*test), batch_size=256),
        metric=lambda outputs, targets: float(roc_auc_score(targets.ravel().numpy(), outputs.ravel().numpy())),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
