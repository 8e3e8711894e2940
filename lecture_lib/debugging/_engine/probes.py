"""Simple learners beside the program's: what inputs say about targets without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .evidence import Evidence
from .run_data import Examples, counted

MOST = 1200  # rows that a probe learns from


@dataclass(frozen=True)
class Table:
    """Rows for a probe.

    Attributes:
        x: features, float [N, D].
        y: classes, int [N], or numbers, float [N].
        classes: whether y holds classes.

    """

    x: np.ndarray
    y: np.ndarray
    classes: bool

    def halves(self) -> tuple[Table, Table]:
        """Every other row, and the rest."""
        even, odd = (Table(self.x[half::2], self.y[half::2], self.classes) for half in (0, 1))
        return even, odd


def table(evidence: Evidence, examples: Examples | None) -> Table | None:
    """Examples as rows: of a sequence a row for each position, with its id and the one before; None for other tasks."""
    task = evidence.spec.task
    if examples is None or task not in ("classification", "regression", "sequence", "multi-label"):
        return None
    x, y = examples.x, examples.y
    if task == "sequence" and x.ndim == 2 and not x.is_floating_point() and y.shape == x.shape:
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        kept = counted(y, evidence.spec)
        ids = torch.stack([x[kept], before[kept]], dim=1)[:MOST]
        encoded = torch.nn.functional.one_hot(ids, int(x.max()) + 1).flatten(1)
        return Table(encoded.double().numpy(), y[kept][:MOST].numpy(), True)
    if not x.is_floating_point() or task == "sequence":
        return None
    rows = x.reshape(len(x), -1)[:MOST].double().numpy()
    if not np.isfinite(rows).all():
        return None
    target = y.reshape(len(y), -1)[:MOST]
    if target.shape[1] != 1:
        return None
    values = target[:, 0].numpy()
    return Table(rows, values.astype(int) if task != "regression" else values.astype(float), task != "regression")


def learner(data: Table, linear: bool = False) -> Any:
    """A small kernel machine, or a linear one, on standardised rows."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    if linear:
        last = LogisticRegression(max_iter=300) if data.classes else RidgeCV(np.logspace(-3, 3, 7))
    else:
        last = SVC(C=5) if data.classes else SVR(C=5)
    return make_pipeline(StandardScaler(), last)


def without_own(data: Table) -> np.ndarray:
    """For each row what a learner says that has not seen it: five folds."""
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(5, shuffle=True, random_state=0)
    return np.asarray(cross_val_predict(learner(data), data.x, data.y, cv=folds))


def score(data: Table, predicted: np.ndarray) -> float:
    """Accuracy, or R²."""
    if data.classes:
        return float((predicted == data.y).mean())
    return 1 - float(((predicted - data.y) ** 2).mean() / max(data.y.var(), 1e-12))


def named(outputs: Tensor, y: Tensor) -> Tensor | None:
    """The class of each position, like y: of scores [B, C, T] or [B, T, C], whichever fits; None if neither does."""
    fitting = [labels for axis in (1, 2) if (labels := outputs.argmax(dim=axis)).shape == y.shape]
    return max(fitting, key=lambda labels: int((labels == y).sum()), default=None)


def chance(data: Table) -> float:
    """The score of the best constant."""
    return float(np.unique(data.y, return_counts=True)[1].max() / len(data.y)) if data.classes else 0.0


def few_columns(data: Table) -> tuple[float, float, list[int]]:
    """How well a handful of columns names the class with hardly more questions than classes, and then all others."""
    from sklearn.tree import DecisionTreeClassifier

    learning, held_out = data.halves()
    if not learning.classes:
        return 0.0, 0.0, []
    scored = []
    x, y = learning.x.copy(), held_out.x.copy()
    for _ in range(2):
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * len(np.unique(learning.y)), random_state=0).fit(x, learning.y)
        columns = sorted({int(feature) for feature in tree.tree_.feature if feature >= 0})
        scored.append((score(held_out, tree.predict(y)), columns))
        with np.errstate(invalid="ignore"):  # a column that never changes
            alike = np.abs(np.nan_to_num(np.corrcoef(x.T)[columns])).max(axis=0) > 0.9 if columns else []
        # Copies of these columns go as well, or the second tree would use them in their place.
        x[:, alike], y[:, alike] = 0.0, 0.0
    (best, columns), (rest, _) = scored
    return best, rest, columns
