"""A rare class found in a noisy table, with the rare rows repeated until the classes are balanced.

A small network with dropout is trained on 30 standardised columns; one row in eight is of the rare class. Validation
reports the balanced accuracy, which does not depend on how frequent the classes are.

Fault: the rare rows are repeated first and the table is split afterwards, so that copies of the same row lie in
training and in validation. The twin splits first and repeats rare rows in training only.

Measured (seeds 0 and 1): balanced accuracy 0.916 and 0.922 with the fault, 0.809 and 0.810 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)


def oversample(x, y, seed):
    """Repeats rows of the rare class at random until both classes are as frequent."""
    rng = np.random.default_rng(seed)
    rare = np.flatnonzero(y == 1)
    extra = rng.choice(rare, size=int((y == 0).sum()) - len(rare), replace=True)
    keep = rng.permutation(np.concatenate([np.arange(len(y)), extra]))
    return x[keep], y[keep]


def build(seed: int, before: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = make_classification(
        n_samples=1600,
        n_features=30,
        n_informative=8,
        n_redundant=4,
        n_clusters_per_class=2,
        weights=[0.88],
        flip_y=0.06,
        class_sep=0.9,
        random_state=seed,
    )
    if before:
        x, y = oversample(x, y, seed)
    x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
    if not before:
        x_train, y_train = oversample(x_train, y_train, seed)
    scaler = StandardScaler().fit(x_train)
    train, val = (
        TensorDataset(torch.tensor(scaler.transform(a), dtype=torch.float32), torch.tensor(b, dtype=torch.long))
        for a, b in ((x_train, y_train), (x_val, y_val))
    )
    model = nn.Sequential(
        nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2)
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=5e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(val, batch_size=128),
        metric=lambda out, target: balanced_accuracy_score(target.numpy(), out.argmax(1).numpy()),
    )
    # Training is balanced on purpose; validation is as the table is.
    return program, Spec(task="classification", classes=2, epochs=12, shift_expected=not before)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, before=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, before=False)
