"""Rung 1: what is wrong with sequences of ids, seen without training."""

from __future__ import annotations

import torch
from torch import Tensor

from .._engine.evidence import Evidence
from .._engine.run_data import index_left_out
from .finding import Finding

ENDS = 0.9  # of the sequences end in their padding, if they are read rightly
NEARLY, SEQUENCES = 0.15, 400  # share of near copies that is no accident, among so many sequences
SHORT = 8  # places; a sequence of fewer has near relatives by nature


def steps_first(evidence: Evidence) -> Finding | None:
    """D08: read as [T, N], the padding is at the ends of the sequences; as it is read, it is scattered."""
    val, padding = evidence.val, evidence.spec.padding_index
    if padding is None or val is None or val.x.ndim != 2 or val.x.is_floating_point():
        return None
    pads = val.x == padding
    now, transposed = _at_an_end(pads), _at_an_end(pads.reshape(pads.shape[1], pads.shape[0]).t())
    if not pads.any() or transposed < ENDS or now > ENDS / 2:
        return None
    return Finding(
        "D08",
        f"padding is at one end in {now:.0%} of the sequences; read as [time steps, sequences] in {transposed:.0%}",
        {"now": now, "transposed": transposed},
    )


def _at_an_end(pads: Tensor) -> float:
    """The share of sequences [N, T] whose padding, where there is any, is all at the same end."""
    rows = pads[pads.any(dim=1)].long()
    if not len(rows):
        return 0.0
    tail, head = (rows.diff(dim=1) >= 0).all(dim=1), (rows.diff(dim=1) <= 0).all(dim=1)
    return max(float(tail.float().mean()), float(head.float().mean()))


def nearly_copied(evidence: Evidence) -> Finding | None:
    """D18: validation sequences with one near relative in training, and no second one half as near."""
    train, val = evidence.train, evidence.val
    if train is None or val is None or train.x.is_floating_point() or train.x.ndim != 2:
        return None
    if train.x.shape[1:] != val.x.shape[1:] or len(train.x) < 2:
        return None
    padding = -1 if evidence.spec.padding_index is None else evidence.spec.padding_index
    rows, near = val.x[:SEQUENCES], 0
    for row in rows:
        nearest, second = (train.x != row).sum(dim=1).topk(2, largest=False).values.tolist()
        length = int((row != padding).sum())
        near += 0 < nearest <= min(second / 2, length / 4) and length >= SHORT
    share = near / len(rows)
    if share < NEARLY:
        return None
    text = (
        f"{share:.0%} of the validation sequences differ from one training sequence in a few places, from all others "
    )
    return Finding("D18", text + "in twice as many at least", {"share": share}, certain=False)


def never_labelled(evidence: Evidence) -> Finding | None:
    """D13: ids whose labels are all left out in training and count in validation."""
    train, val = evidence.train, evidence.val
    left_out = index_left_out(evidence.spec)
    if train is None or val is None or train.x.shape != train.y.shape or train.x.is_floating_point():
        return None
    if train.x.ndim != 2 or val.x.shape != val.y.shape:
        return None
    kept = [set(split.x[split.y != left_out].tolist()) - {evidence.spec.padding_index} for split in (train, val)]
    train_ids = set(train.x.unique().tolist())
    hidden = sorted((kept[1] - kept[0]) & train_ids)
    if len(hidden) < max(2, 0.05 * len(train_ids)):
        return None
    share = float(torch.isin(train.x, torch.tensor(hidden)).float().mean())
    return Finding(
        "D13",
        f"{len(hidden)} ids that are at {share:.0%} of the places have no label in training but one in validation",
        {"ids": hidden},
    )
