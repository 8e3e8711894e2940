"""A network detects the 4 % fraudulent among synthetic transactions and reports the area under the ROC curve.

Fault: the area under the curve is computed from predictions already cut at 0.5 and not from the scores, as happens when
`roc_auc_score` is put in where `accuracy_score(targets, predictions)` stood. The curve then has a single corner, and
what is reported is the balanced accuracy at one threshold. The model is right, but the number is far too low.

Measured (seeds 0 and 1): reported area 0.864 and 0.727 faulty, 0.945 and 0.927 repaired, for the same model.
"""

from __future__ import annotations

import torch
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS = 12


def _auc(logits: Tensor, targets: Tensor) -> float:
    predictions = (logits.sigmoid() > 0.5).float()
    return float(roc_auc_score(targets.numpy(), predictions.numpy()))


def _auc_repaired(logits: Tensor, targets: Tensor) -> float:
    return float(roc_auc_score(targets.numpy(), logits.sigmoid().numpy()))


class Detector(nn.Module):
    """Two hidden layers and one logit for each transaction."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).squeeze(1)


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    table, fraud = make_classification(
        6000, 20, n_informative=8, n_redundant=4, n_clusters_per_class=2, weights=[0.965], flip_y=0.005, class_sep=1.0,
        random_state=seed,
    )  # fmt: skip
    train_x, val_x, train_y, val_y = train_test_split(table, fraud, test_size=0.3, stratify=fraud, random_state=seed)
    scaler = StandardScaler().fit(train_x)
    sets = [
        TensorDataset(torch.tensor(scaler.transform(x), dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
        for x, y in ((train_x, train_y), (val_x, val_y))
    ]
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(sets[0], 64, shuffle=True, generator=generator), DataLoader(sets[1], 512)


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = Detector(20)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=train_loader,
        val_loader=val_loader,
        metric=_auc,
    )
    return program, Spec(task="multi-label", classes=1, epochs=EPOCHS)


def twin(seed: int) -> tuple[Program, Spec]:
    program, spec = make(seed)
    program.metric = _auc_repaired
    return program, spec
