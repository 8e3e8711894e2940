"""A network predicts the outcomes of eight assays of a compound; not every assay was made for every compound.

Fault: the table is cleaned with one `nan_to_num(table, nan=0)` over all columns, meant for the features. The label
columns lie in the same table, so that an assay that was not made becomes "inactive". The loss does leave out labels of
-1, the mark for "not made", but none is left. Over half of the true positives in training are so labelled negative, and
the probabilities come out far too low. (Validation compounds have all assays made.)

Measured (seeds 0 and 1): macro F1 in validation 0.20 and 0.19 faulty, 0.80 and 0.83 repaired.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
EPOCHS = 15
FEATURES, ASSAYS, NOT_MADE = 30, 8, -1
Table = NDArray[np.float64]


def _clean(table: Table) -> Table:
    return np.nan_to_num(table, nan=0.0)


def _clean_repaired(table: Table) -> Table:
    features, labels = table[:, :FEATURES], table[:, FEATURES:]
    return np.hstack([np.nan_to_num(features, nan=0.0), np.nan_to_num(labels, nan=NOT_MADE)])


def _table(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(3600, FEATURES))
    hidden = np.tanh(features @ rng.normal(size=(FEATURES, 12)) / 3)
    score = hidden @ rng.normal(size=(12, ASSAYS)) + 0.3 * rng.normal(size=(3600, ASSAYS))
    labels = (score > np.quantile(score, 0.65, axis=0)).astype(float)
    labels[:3000][rng.random((3000, ASSAYS)) < 0.6] = np.nan
    features[rng.random(features.shape) < 0.02] = np.nan
    return np.hstack([features, labels])


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    made = labels != NOT_MADE
    return F.binary_cross_entropy_with_logits(logits[made], labels[made])


def _macro_f1(logits: Tensor, labels: Tensor) -> float:
    predictions = (logits.sigmoid() > 0.5).int().numpy()
    made = (labels != NOT_MADE).numpy()
    return float(np.mean([f1_score(labels[m, i].numpy(), predictions[m, i]) for i, m in enumerate(made.T)]))


def _build(seed: int, repaired: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    table = torch.tensor((_clean_repaired if repaired else _clean)(_table(seed)), dtype=torch.float32)
    x, y = table[:, :FEATURES], table[:, FEATURES:]
    x = (x - x[:3000].mean(0)) / x[:3000].std(0)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, ASSAYS))
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=_loss,
        train_loader=DataLoader(TensorDataset(x[:3000], y[:3000]), 50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[3000:], y[3000:]), 200),
        metric=_macro_f1,
    )
    return program, Spec(task="multi-label", classes=ASSAYS, epochs=EPOCHS, ignore_index=NOT_MADE)


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, repaired=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, repaired=True)
