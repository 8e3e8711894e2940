"""Rung 1: ids that stand for other things in validation than in training."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .._engine.run_data import Examples
from .finding import Finding

IDS = 10  # different ones, before their numbering says anything
AGREE, WORDS = 0.5, 400  # correlation from which ids say something of the labels, of so many ids
COLUMNS = 50  # of a table of ids; more are places of a sequence
CHANCE = 1e-3  # of what is taken for no accident


def numbered_anew(evidence: Evidence) -> Finding | None:
    """D03: validation has a numbering of its own, for the words of its sequences or for a column of its table."""
    padding = evidence.spec.padding_index
    for train, val in evidence.each_input:
        if train.x.is_floating_point() or not 0 < train.x.ndim == val.x.ndim < 3:
            continue
        tables = [(train, val)] if train.x.ndim == 2 else []
        columns = train.x.shape[1] if train.x.ndim == 2 and train.x.shape[1:] == val.x.shape[1:] else 1
        tagged = train.x.ndim == 2 and train.y.shape == train.x.shape
        if columns <= COLUMNS and not tagged:
            tables += [(_column(train, place), _column(val, place)) for place in range(columns)]
        for split in tables:
            how = _own_numbering(*split, padding)
            if how and _rules_differ(*split, padding):
                count = len(_ids(split[1], padding).unique())
                text = f"the {count} ids of validation are numbered {how}, and stand for other labels than in training"
                return Finding("D03", text, {"ids": count})
    return None


def rows_shared_by_columns(evidence: Evidence) -> Finding | None:
    """A table has a row for every id of every column, and the columns look theirs up in the same first rows."""
    train = evidence.train
    if train is None or train.x.is_floating_point() or train.x.ndim != 2 or not 2 <= train.x.shape[1] <= COLUMNS:
        return None
    tables = {layer: name for name, layer in evidence.program.model.named_modules() if isinstance(layer, nn.Embedding)}
    requested: dict[nn.Module, list[Tensor]] = {layer: [] for layer in tables}
    with untouched(evidence.program, evidence.seed) as program, torch.no_grad(), ExitStack() as hooks:
        for layer, batches in requested.items():
            hook = layer.register_forward_hook(lambda _, args, __, batches=batches: batches.append(args[0].cpu()))
            hooks.callback(hook.remove)
        program.model.eval()
        for x, _ in train.batches():
            program.outputs(x.to(train.device))
    for layer, name in tables.items():
        batches, rows = requested[layer], layer.num_embeddings
        if not batches or any(ids.shape[1:] != train.x.shape[1:] for ids in batches):
            continue
        ids = torch.cat(batches)
        counts = ids.amax(dim=0) - ids.amin(dim=0) + 1
        # A few ids may be missing in what is looked at.
        if 0.9 * rows <= int(counts.sum()) <= rows and int(ids.max()) < 0.7 * rows:
            text = (
                f"{name} has {rows} rows for the {int(counts.sum())} ids of {len(counts)} columns, and all of them use "
                f"the first {int(ids.max()) + 1}: is each column's offset missing?"
            )
            return Finding(None, text, {"rows": rows, "ids": counts.tolist()}, where="model")
    return None


def _column(examples: Examples, place: int) -> Examples:
    y = examples.y.squeeze(1) if examples.y.ndim == 2 else examples.y
    return Examples(examples.x.reshape(len(examples.x), -1)[:, place : place + 1], y, examples.batch_size)


def _own_numbering(train: Examples, val: Examples, padding: int | None) -> str:
    """How validation may have numbered its ids by itself; empty if it did not."""
    ids = _ids(val, padding)
    words, first, counts = ids.unique(return_inverse=True, return_counts=True)
    if len(words) < IDS:
        return ""
    # The position at which each id comes first.
    place = torch.full((len(words),), len(ids)).scatter_reduce(0, first, torch.arange(len(ids)), "amin")
    if bool((place.diff() > 0).all()):
        return "in the order in which they come there"
    if len(words) >= 2 * IDS and bool((counts.diff() <= 0).all()):
        return "from the most to the least common there"
    of_training = _ids(train, padding)
    lowest, known = int(words[0]), of_training.unique()
    span = int(known[-1]) - lowest + 1
    # Of a sample of training a few ids may be missing; more than half, and they are no numbering.
    if int(words[-1]) - lowest + 1 == len(words) < span < 2 * len(known):
        counts = torch.bincount((of_training - lowest).clamp(min=0)) + 0.5
        if _highest_are_missing(counts, len(words), len(ids)) < CHANCE:
            return "without a gap, although training has more"
    return ""


def _highest_are_missing(counts: Tensor, present: int, draws: int) -> float:
    """The chance that of ids as common as in training just the last ones are missing, if that many are.

    counts: [K], of each id in training. With as many draws as validation has, an id is missing by
    (1 - share) ** draws, and the number of missing ones is Poisson-binomial.
    """
    missing = (1 - counts.double() / counts.sum()).pow(draws).clamp(1e-12, 1 - 1e-12)
    number = torch.zeros(len(counts) + 1, dtype=torch.float64)
    number[0] = 1
    for share in missing:
        number[1:] = number[1:] * (1 - share) + number[:-1] * share
        number[0] *= 1 - share
    if present == len(counts):
        return 1.0
    just_these = torch.cat([1 - missing[:present], missing[present:]]).prod()
    return float(just_these / number[len(counts) - present].clamp(min=1e-300))


def _ids(examples: Examples, padding: int | None) -> Tensor:
    ids = examples.x.flatten().long()
    return ids if padding is None else ids[ids != padding]


def _rules_differ(train: Examples, val: Examples, padding: int | None) -> bool:
    """Whether ids stand for other labels in validation: the commonest of each, or the mean label of their examples."""
    if train.y.shape != train.x.shape or val.y.shape != val.x.shape:
        first, second = (train.part(slice(start, None, 2)) for start in (0, 1))
        within = _agreement(first, second, padding)
        return _agreement(train, val, padding) < within / 2 and within > AGREE
    best = [commonest_labels(examples) for examples in (train, val)]
    shared = (best[0].keys() & best[1].keys()) - {padding}
    return bool(shared) and sum(best[0][word] != best[1][word] for word in shared) > 0.3 * len(shared)


def _agreement(train: Examples, val: Examples, padding: int | None) -> float:
    """The correlation, over ids and labels, of the mean label of the examples that hold an id; 1 where unknown."""
    shared = sorted(set(_ids(train, padding).tolist()) & set(_ids(val, padding).tolist()))[:WORDS]
    if train.y.ndim > 2 or train.y.shape[1:] != val.y.shape[1:] or len(shared) < IDS:
        return 1.0
    classes = train.y.unique() if train.y.ndim == 1 and not train.y.is_floating_point() else None
    profiles, noise = [], torch.zeros(len(shared), 1, dtype=torch.float64)
    for split in (train, val):
        labels = split.y.double() if classes is None else (split.y[:, None] == classes).double()
        labels = labels.reshape(len(labels), -1)
        holds = torch.stack([(split.x == word).any(dim=1) for word in shared]).double()
        counts = holds.sum(dim=1, keepdim=True)
        profiles.append(holds @ (labels - labels.mean(dim=0)) / counts)
        noise += 1 / counts
    # Means over a few examples say little.
    weights = (1 / noise).expand_as(profiles[0]).flatten()
    (first, both), (_, second) = torch.cov(torch.stack([part.flatten() for part in profiles]), aweights=weights)
    return float(both / (first * second).sqrt().clamp(min=1e-12))


def commonest_labels(examples: Examples) -> dict[int, int]:
    """The label that each id has most often, where it has any."""
    commonest = {}
    for word in examples.x.unique().tolist():
        labels = examples.y[(examples.x == word) & (examples.y >= 0)]
        if len(labels):
            commonest[int(word)] = int(labels.mode().values)
    return commonest
