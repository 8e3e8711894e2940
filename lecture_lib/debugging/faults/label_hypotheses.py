"""Rungs 1 and 2, by comparison: whether labels belong to their inputs, are right, and are not given away."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.utils.data import DataLoader

from .._engine.evidence import Evidence
from .._engine.observed import Examples
from .._engine.probes import Table, chance, few_columns, score, table, without_own
from .._engine.untouched import untouched
from .data_hypotheses import SATISFIED
from .finding import Finding
from .sequence_rules import commonest_labels

LARGE = 5000  # data sets that are not read a second time
SAID = 0.95  # score of one column that is the label in another form
NEAR = 0.97  # score of one column alone that gives the target away


def not_together(evidence: Evidence) -> Finding | None:
    """D09: labels fit the inputs of training no better than chance, and those of a neighbour do."""
    plain, val, program = evidence.plain, evidence.val, evidence.program
    if plain is None or val is None or len(val.y) < 60 or program.loss_fn is None or not evidence.run.rows:
        return None
    best = min((row.val_loss for row in evidence.run.rows if not math.isnan(row.val_loss)), default=0.0)
    if best < 0.85 * evidence.constant_loss:
        return None
    train = table(evidence, plain)
    if train is not None:
        spread = math.sqrt(max(chance(train) * (1 - chance(train)), 0.05) / len(train.y))
        if score(train, without_own(train)) > chance(train) + 4 * spread:
            return None
    shifted = _neighbouring(evidence)
    return Finding("D09", shifted, certain=False) if shifted else None


def _neighbouring(evidence: Evidence) -> str:
    """Whether inputs fit labels in another order of the rows, one that a slip makes."""
    data = in_order(evidence)
    if data is None:
        return ""
    rows = torch.arange(len(data.y))
    by_name = torch.tensor(sorted(rows.tolist(), key=str))  # 0, 1, 10, 11, ..., 2, 20, ...
    orders = {
        "one row after them": rows.roll(-1),
        "one row before them": rows.roll(1),
        "that stand where sorting numbers as text puts them": by_name,
        "that stand where sorting text as numbers puts them": by_name.argsort(),
        "counted from the end": rows.flip(0),
    }
    for where, order in orders.items():
        moved = table(evidence, Examples(data.x, data.y[order], 1))
        if moved is not None and score(moved, without_own(moved)) > chance(moved) + 0.15 and not _holds(moved):
            return f"inputs fit the labels {where}, not their own"
    return ""


def _holds(moved: Table) -> bool:
    """Whether one column names these labels: windows over a series hold the neighbour's label as a value of theirs."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    seen, kept = moved.halves()
    leaves = 2 * len(np.unique(moved.y)) if moved.classes else 64
    tree = (DecisionTreeClassifier if moved.classes else DecisionTreeRegressor)(max_leaf_nodes=leaves, random_state=0)
    columns = ([number] for number in range(moved.x.shape[1]))
    return any(score(kept, tree.fit(seen.x[:, one], seen.y).predict(kept.x[:, one])) > SAID for one in columns)


def in_order(evidence: Evidence) -> Examples | None:
    """Training examples in their data set's order; None where it has none, or is large."""
    loader = evidence.program.train_loader
    data = getattr(loader, "dataset", None)
    if data is None or not hasattr(data, "__getitem__") or len(data) > LARGE:
        return None
    batches = DataLoader(data, 256, collate_fn=getattr(loader, "collate_fn", None))
    with untouched(evidence.program):  # a loader draws a seed for its workers, also where it has none
        parts = [evidence.program.parts(batch) for batch in batches]
    x, y = (torch.cat([part[i] for part in parts]).cpu() for i in (0, 1))
    return Examples(x, y, 1)


def gives_target_away(evidence: Evidence) -> Finding | None:
    """D21: one column alone names the target."""
    train, val = table(evidence, evidence.plain), table(evidence, evidence.val)
    if train is None or val is None or chance(val) > SATISFIED:
        return None
    if evidence.spec.task == "sequence":
        return _word_gives_tag_away(evidence)
    if not 3 <= train.x.shape[1] <= 1200:
        return None
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.tree import DecisionTreeClassifier

    seen, kept = train.halves()
    together = _few_columns(train)
    if together:
        return together
    scores = {}
    for number in np.flatnonzero(train.x.std(axis=0) > 0):
        one = (
            DecisionTreeClassifier(max_leaf_nodes=4 * len(np.unique(train.y)), random_state=0)
            if train.classes
            else KNeighborsRegressor(5)
        )
        one.fit(seen.x[:, [number]], seen.y)
        found = score(kept, one.predict(kept.x[:, [number]]))
        if train.classes and found > 0.6:  # a number that counts through the classes
            nearest = KNeighborsClassifier(3).fit(seen.x[:, [number]], seen.y)
            found = max(found, score(kept, nearest.predict(kept.x[:, [number]])))
        scores[int(number)] = found
    column = max(scores, key=scores.__getitem__)
    best = scores[column]
    # In an easy task many columns say much; one that gives the target away, or copies of it, stands alone.
    alike = np.abs(np.corrcoef(train.x[:, list(scores)].T)[list(scores).index(column)])
    others = [found for found, like in zip(scores.values(), alike, strict=True) if like < 0.9]
    if best < NEAR or max(others, default=0.0) > best - 0.15:
        return None
    return Finding(
        "D21", f"column {column} alone scores {best:.2f} on examples it has not seen", {"column": column, "score": best}
    )


def _few_columns(train: Table) -> Finding | None:
    best, other, columns = few_columns(train)
    if best < NEAR or other > best - 0.15:
        return None
    return Finding("D21", f"columns {columns} alone score {best:.2f} on examples it has not seen", {"columns": columns})


def _word_gives_tag_away(evidence: Evidence) -> Finding | None:
    train, val = evidence.train, evidence.val
    assert train is not None
    assert val is not None
    best = commonest_labels(train)
    kept = val.y >= 0
    words, wanted = val.x[kept].tolist(), val.y[kept].tolist()
    right = float(np.mean([best.get(word) == tag for word, tag in zip(words, wanted, strict=True)]))
    several = len(set(wanted)) > 1
    if right < 0.995 or not several:
        return None
    return Finding("D21", f"the id of a word alone names {right:.1%} of its labels", {"score": right})
