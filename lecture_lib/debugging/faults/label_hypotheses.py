"""Rung 2, by comparison: whether the target is given away."""

from __future__ import annotations

import numpy as np

from .._engine.evidence import Evidence
from .._engine.probes import Table, chance, few_columns, score, table
from .._engine.run_data import counted
from .data_hypotheses import SATISFIED
from .finding import Finding
from .id_rules import commonest_labels
from .loss_probes import shifts_labels

NEAR = 0.97  # score of one column alone that gives the target away


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

    learning, held_out = train.halves()
    together = _few_columns(train)
    if together:
        return together
    scores = {}
    for number in np.flatnonzero(train.x.std(axis=0) > 0):
        probe = (
            DecisionTreeClassifier(max_leaf_nodes=4 * len(np.unique(train.y)), random_state=0)
            if train.classes
            else KNeighborsRegressor(5)
        )
        probe.fit(learning.x[:, [number]], learning.y)
        reached = score(held_out, probe.predict(held_out.x[:, [number]]))
        if train.classes and reached > 0.6:  # a number that counts through the classes
            nearest = KNeighborsClassifier(3).fit(learning.x[:, [number]], learning.y)
            reached = max(reached, score(held_out, nearest.predict(held_out.x[:, [number]])))
        scores[int(number)] = reached
    column = max(scores, key=scores.__getitem__)
    best = scores[column]
    # In an easy task many columns say much; one that gives the target away, or copies of it, stands alone.
    alike = np.abs(np.corrcoef(train.x[:, list(scores)].T)[list(scores).index(column)])
    rest = [reached for reached, like in zip(scores.values(), alike, strict=True) if like < 0.9]
    if best < NEAR or max(rest, default=0.0) > best - 0.15:
        return None
    text, where = f"column {column} alone scores {best:.2f} on examples it has not seen", ""
    x = evidence.plain.x if evidence.plain is not None else None
    last_step = x is not None and x.ndim in (2, 3) and column >= x[0, :-1].numel()
    if last_step and x is not None and (x.ndim == 3 or _windows_of_a_series(train.x)):
        # Of windows of a series: the target should be what comes after them.
        text, where = f"{text}; it is the last value of each window", "labels"
    return Finding("D21", text, {"column": column, "score": best}, where=where)


def _windows_of_a_series(x: np.ndarray) -> bool:
    """Whether most rows go on, shifted by one column, in another row: windows that overlap. x: [N, D]."""
    ends = {row.tobytes() for row in np.ascontiguousarray(x[:, 1:])}
    return sum(row.tobytes() in ends for row in np.ascontiguousarray(x[:, :-1])) > len(x) / 2


def _few_columns(train: Table) -> Finding | None:
    best, rest, columns = few_columns(train)
    if best < NEAR or rest > best - 0.15:
        return None
    return Finding("D21", f"columns {columns} alone score {best:.2f} on examples it has not seen", {"columns": columns})


def _word_gives_tag_away(evidence: Evidence) -> Finding | None:
    train, val = evidence.train, evidence.val
    assert train is not None
    assert val is not None
    best = commonest_labels(train)
    kept = counted(val.y, evidence.spec)
    words, wanted = val.x[kept].tolist(), val.y[kept].tolist()
    right = float(np.mean([best.get(word) == tag for word, tag in zip(words, wanted, strict=True)]))
    several = len(set(wanted)) > 1
    if right < 0.995 or not several or shifts_labels(evidence):
        return None
    text, where = f"the id of a word alone names {right:.1%} of its labels", ""
    if words == wanted:
        text, where = f"{text}: each label is the word at its own place, not the next one", "labels"
    return Finding("D21", text, {"score": right}, where=where)
