"""Rung 1: what is wrong with sequences of ids, seen without training."""

from __future__ import annotations

import torch
from torch import Tensor

from .._engine.evidence import Evidence
from .._engine.run_data import Examples
from .finding import Finding

IDS = 10  # different ones, before their numbering says anything
ENDS = 0.9  # of the sequences end in their padding, if they are read rightly
NEARLY, SEQUENCES = 0.15, 400  # share of near copies that is no accident, among so many sequences
AGREE, WORDS = 0.3, 400  # correlation below which ids stand for something else, of so many ids
SHORT = 8  # places; a sequence of fewer has near relatives by nature


def steps_first(evidence: Evidence) -> Finding | None:
    """D08: read as [T, N], the padding stands at the ends of the sequences; as it is read, it is scattered."""
    val, padding = evidence.val, evidence.spec.padding_index
    if padding is None or val is None or val.x.ndim != 2 or val.x.is_floating_point():
        return None
    pads = val.x == padding
    now, transposed = _at_an_end(pads), _at_an_end(pads.reshape(pads.shape[1], pads.shape[0]).t())
    if not pads.any() or transposed < ENDS or now > ENDS / 2:
        return None
    return Finding(
        "D08",
        f"padding stands at one end in {now:.0%} of the sequences; read as [time steps, sequences] in {transposed:.0%}",
        {"now": now, "transposed": transposed},
    )


def _at_an_end(pads: Tensor) -> float:
    """The share of sequences [N, T] whose padding, where there is any, is all at the same end."""
    rows = pads[pads.any(dim=1)].long()
    if not len(rows):
        return 0.0
    tail, head = (rows.diff(dim=1) >= 0).all(dim=1), (rows.diff(dim=1) <= 0).all(dim=1)
    return max(float(tail.float().mean()), float(head.float().mean()))


def numbered_anew(evidence: Evidence) -> Finding | None:
    """D03: validation has a vocabulary of its own, numbered as its words come or by how common they are there."""
    train, val = evidence.train, evidence.val
    if train is None or val is None or val.x.is_floating_point() or val.x.ndim != 2 or train.x.ndim != 2:
        return None
    ids = _ids(val, evidence.spec.padding_index)
    words, first, counts = ids.unique(return_inverse=True, return_counts=True)
    if len(words) < IDS or not _rules_differ(train, val, evidence.spec.padding_index):
        return None
    # The position at which each id comes first.
    place = torch.full((len(words),), len(ids)).scatter_reduce(0, first, torch.arange(len(ids)), "amin")
    how = "in the order in which they come" if bool((place.diff() > 0).all()) else ""
    if not how and len(words) >= 2 * IDS and bool((counts.diff() <= 0).all()):
        how = "from the most to the least common"
    if not how:
        return None
    return Finding(
        "D03",
        f"the {len(words)} ids of validation are numbered {how} there, and stand for other labels than in training",
        {"ids": len(words)},
    )


def _ids(examples: Examples, padding: int | None) -> Tensor:
    ids = examples.x.flatten().long()
    return ids if padding is None else ids[ids != padding]


def _rules_differ(train: Examples, val: Examples, padding: int | None) -> bool:
    """Whether ids stand for other labels in validation: the commonest of each, or the mean label of their examples."""
    if train.y.shape != train.x.shape or val.y.shape != val.x.shape:
        first, second = (train.part(slice(start, None, 2)) for start in (0, 1))
        return _agreement(train, val, padding) < AGREE < 2 * AGREE < _agreement(first, second, padding)
    best = [commonest_labels(examples) for examples in (train, val)]
    shared = (best[0].keys() & best[1].keys()) - {padding}
    return bool(shared) and sum(best[0][word] != best[1][word] for word in shared) > 0.3 * len(shared)


def _agreement(train: Examples, val: Examples, padding: int | None) -> float:
    """The correlation, over ids and labels, of the mean label of the examples that hold an id; 1 where unknown."""
    shared = sorted(set(_ids(train, padding).tolist()) & set(_ids(val, padding).tolist()))[:WORDS]
    if train.y.ndim > 2 or train.y.shape[1:] != val.y.shape[1:] or len(shared) < IDS:
        return 1.0
    classes = train.y.unique() if train.y.ndim == 1 and not train.y.is_floating_point() else None
    profiles = []
    for split in (train, val):
        labels = split.y.double() if classes is None else (split.y[:, None] == classes).double()
        labels = labels.reshape(len(labels), -1)
        holds = torch.stack([(split.x == word).any(dim=1) for word in shared]).double()
        profiles.append((holds @ (labels - labels.mean(dim=0)) / holds.sum(dim=1, keepdim=True)).flatten())
    return float(torch.corrcoef(torch.stack(profiles))[0, 1])


def commonest_labels(examples: Examples) -> dict[int, int]:
    """The label that each id has most often, where it has any."""
    commonest = {}
    for word in examples.x.unique().tolist():
        labels = examples.y[(examples.x == word) & (examples.y >= 0)]
        if len(labels):
            commonest[int(word)] = int(labels.mode().values)
    return commonest


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
    left_out = -100 if evidence.spec.ignore_index is None else evidence.spec.ignore_index
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
        f"{len(hidden)} ids that stand at {share:.0%} of the places have no label in training but one in validation",
        {"ids": hidden},
    )
