"""A churn classifier on an imbalanced table (one customer in ten leaves): an MLP on twenty standardised columns, with
the minority oversampled until the classes are even.

Fault: the minority rows are duplicated before the table is split, so that copies of the same customer lie in training
and in validation; the twin splits first and oversamples the training part alone.

Measured (seeds 0 and 1): balanced accuracy reported by the faulty program 0.921 and 0.938, of the same models on 1500
fresh customers 0.809 and 0.800; the twin reports 0.752 and 0.834 (few leavers in its validation), on the fresh
customers 0.781 and 0.803.
"""

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "split"
EPOCHS = 15


def load_table(seed, rows=1500):
    """The customers that we have, and as many rows again from the same source that no program sees."""
    x, y = make_classification(
        n_samples=rows * 2,
        n_features=20,
        n_informative=8,
        n_redundant=2,
        n_clusters_per_class=3,
        class_sep=0.9,
        weights=[0.9],
        flip_y=0.02,
        random_state=seed,
    )
    return x[:rows].astype("float32"), y[:rows], x[rows:].astype("float32"), y[rows:]


def oversample(x, y, rng):
    minority = np.flatnonzero(y == 1)
    extra = rng.choice(minority, size=(y == 0).sum() - len(minority), replace=True)
    keep = rng.permutation(np.concatenate([np.arange(len(y)), extra]))
    return x[keep], y[keep]


def balanced_accuracy(logits, y):
    predicted = logits.argmax(1)
    return sum((predicted[y == c] == c).float().mean() for c in (0, 1)).item() / 2


def build(seed, split_first):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x, y, _, _ = load_table(seed)
    if split_first:
        x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
        x_train, y_train = oversample(x_train, y_train, rng)
    else:
        x, y = oversample(x, y, rng)
        x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
    mean, std = x_train.mean(0), x_train.std(0)

    def dataset(features, labels):
        return TensorDataset(torch.tensor((features - mean) / std), torch.tensor(labels))

    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(dataset(x_train, y_train), batch_size=64, shuffle=True),
        val_loader=DataLoader(dataset(x_val, y_val), batch_size=256),
        metric=balanced_accuracy,
    )
    # Oversampling evens the classes out in training on purpose.
    return program, Spec(task="classification", classes=2, epochs=EPOCHS, shift_expected=True)


def make(seed):
    return build(seed, split_first=False)


def twin(seed):
    return build(seed, split_first=True)
