"""Will a parcel come back? Eight numeric features of the order and the shop that sent it: 1500 shops, a few orders
each. The shop enters as its smoothed rate of returns (target encoding). An MLP, reported by the area under the ROC
curve.

Fault: the rates are computed from all labelled rows, validation's labels and each row's own label among them. The
twin gives training rows the rate in the other four of five folds, and validation and test rows the rate in training.
In both programs the test rows' labels enter nowhere.

Measured (seeds 0 and 1): area under the curve reported on validation 0.86 and 0.86, on test rows 0.71 and 0.70; the
twin reports 0.73 and 0.71, test 0.75 and 0.71.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "split")
SHOPS, FEATURES, ROWS, SMOOTHING = 1500, 8, 9000, 2.0
SPEC = Spec(task="multi-label", epochs=12)


def orders(rng):
    quality = rng.normal(0, 0.8, SHOPS)
    shop = rng.integers(0, SHOPS, ROWS)
    x = rng.normal(size=(ROWS, FEATURES))
    score = x @ rng.normal(0, 0.3, FEATURES) + 0.4 * x[:, 0] * x[:, 1] + quality[shop] - 0.8
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-score))).astype(np.float64)
    return x, shop, y


def rates(shop, y):
    """Smoothed rate of returns of each shop."""
    count = np.bincount(shop, minlength=SHOPS)
    returned = np.bincount(shop, weights=y, minlength=SHOPS)
    return (returned + SMOOTHING * y.mean()) / (count + SMOOTHING)


def out_of_fold(rng, shop, y, folds=5):
    fold = rng.permutation(len(shop)) % folds
    encoded = np.zeros(len(shop))
    for k in range(folds):
        encoded[fold == k] = rates(shop[fold != k], y[fold != k])[shop[fold == k]]
    return encoded


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x, shop, y = orders(rng)
    order = rng.permutation(ROWS)
    train, val, test = order[:6000], order[6000:7500], order[7500:]
    encoded = np.zeros(ROWS)
    if faulty:
        labelled = np.concatenate([train, val])
        encoded[:] = rates(shop[labelled], y[labelled])[shop]
    else:
        encoded[:] = rates(shop[train], y[train])[shop]
        encoded[train] = out_of_fold(rng, shop[train], y[train])

    columns = np.column_stack([x, encoded])
    columns = (columns - columns[train].mean(0)) / columns[train].std(0)
    inputs, targets = torch.tensor(columns, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]
    data = {name: TensorDataset(inputs[i], targets[i]) for name, i in (("train", train), ("val", val), ("test", test))}

    model = nn.Sequential(
        nn.Linear(FEATURES + 1, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(
            data["train"], batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(data["val"], batch_size=256),
        test_loader=DataLoader(data["test"], batch_size=256),
        metric=lambda outputs, targets: float(roc_auc_score(targets.ravel().numpy(), outputs.ravel().numpy())),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
