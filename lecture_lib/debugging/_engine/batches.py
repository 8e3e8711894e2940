"""Batches of any shape as rows: taken, halved, and put into a loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ...training._run.structures import join, take_rows, tensors_of
from ..program import Program
from .assumptions import NotAskedError
from .changes import Change
from .read_examples import MOST

ENOUGH = 0.8  # of the rows that are wanted, with the right classes


class ListLoader:
    """A loader of batches that are there already, in a new order each epoch."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self._batches = list(batches)

    def __iter__(self) -> Iterator[Any]:
        for place in torch.randperm(len(self._batches)).tolist():
            yield self._batches[place]

    def __len__(self) -> int:
        return len(self._batches)


def read_batches(loader: Any) -> list[Any]:
    """As many batches of a loader as the ladder looks at. Raises NotAskedError where rows cannot be told."""
    batches: list[Any] = []
    count = 0
    for batch in loader or ():
        batches.append(between(batch, 0, length(batch)))  # a copy: a loader may use its tensors again
        count += length(batch)
        if count >= MOST:
            break
    return batches


def has_stored_examples(loader: Any) -> bool:
    """Whether a loader makes batches of examples that can be asked for one by one."""
    batched = isinstance(loader, DataLoader) and loader.batch_size is not None
    return batched and not isinstance(loader.dataset, IterableDataset)


def length(batch: Any) -> int:
    """How many examples a batch has: as many as its first tensor has rows."""
    first = next((tensor for tensor in tensors_of(batch) if tensor.ndim), None)
    if first is None:
        raise NotAskedError("a batch holds no tensor with rows")
    return len(first)


def take(batch: Any, rows: Tensor) -> Any:
    """These rows of everything in a batch that has as many rows."""
    return take_rows(batch, rows, length(batch))


def between(batch: Any, start: int, end: int) -> Any:
    """The rows from start up to end, or to the last one."""
    return take(batch, torch.arange(start, min(end, length(batch))))


def halves(batches: Sequence[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """The rows of each batch, in two halves by chance."""
    generator = torch.Generator().manual_seed(seed)
    first, second = [], []
    for batch in batches:
        count = length(batch)
        order = torch.randperm(count, generator=generator)
        if count > 1:
            first.append(take(batch, order[: count // 2]))
            second.append(take(batch, order[count // 2 :]))
    return first, second


def first_rows(batches: Sequence[Any], count: int) -> list[Any]:
    """The first so many rows."""
    chosen: list[Any] = []
    for batch in batches:
        missing = count - sum(map(length, chosen))
        if missing <= 0:
            break
        chosen.append(between(batch, 0, missing))
    return chosen


def alike(batches: Sequence[Any], reference: Sequence[Any], labels: Callable[[Any], Any]) -> list[Any]:
    """As many rows as the others have, with as many of each class where labels are classes and there are enough."""
    count = sum(map(length, reference))
    parts = [labels(batch) for batch in (*batches, *reference)]
    if not all(isinstance(y, Tensor) and y.ndim == 1 and not y.is_floating_point() for y in parts):
        return first_rows(batches, count)
    wanted = Counter(torch.cat(parts[len(batches) :]).tolist())
    matching: list[Any] = []
    for batch, y in zip(batches, parts, strict=False):
        rows = []
        for row, label in enumerate(y.tolist()):
            if wanted[label] > 0:
                wanted[label] -= 1
                rows.append(row)
        if rows:
            matching.append(take(batch, torch.tensor(rows)))
    return _mixed(matching) if sum(map(length, matching)) > ENOUGH * count else first_rows(batches, count)


def _mixed(batches: Sequence[Any]) -> list[Any]:
    """The rows of all batches in one, in an order by chance; as they are where they cannot be put together.

    The last batches that were picked from held only a few rows of the classes that were still missing. A network with
    batch normalisation learns less from such batches.
    """
    try:
        whole = join(batches)
    except (RuntimeError, TypeError, ValueError):
        return list(batches)
    order = torch.randperm(length(whole), generator=torch.Generator().manual_seed(0))
    return [take(whole, order)]


def cut(batches: Sequence[Any], size: int) -> list[Any]:
    """The same rows in batches of at most this size."""
    return [between(batch, start, start + size) for batch in batches for start in range(0, max(length(batch), 1), size)]


def learning_from(batches: Sequence[Any]) -> Change:
    """The program learns from these batches."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        program.train_loader = ListLoader(batches)
        yield

    return change
