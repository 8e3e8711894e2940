"""Batches of any shape as rows: taken, halved, and put into a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..program import Program
from .assumptions import NotAskedError
from .changes import Change
from .reading import MOST


class ListLoader:
    """A loader of batches that are there already, in a new order each epoch."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self._batches = list(batches)

    def __iter__(self) -> Iterator[Any]:
        for place in torch.randperm(len(self._batches)).tolist():
            yield self._batches[place]

    def __len__(self) -> int:
        return len(self._batches)


def leaves(value: Any) -> list[Tensor]:
    """The tensors in nested containers, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in leaves(one)]
    return []


def read_batches(program: Program, loader: Any) -> list[Any]:
    """As many batches of a loader as the ladder looks at. Raises NotAskedError where rows cannot be told."""
    found: list[Any] = []
    seen = 0
    for batch in loader or ():
        found.append(take(batch, slice(None)))
        seen += length(batch)
        if seen >= MOST:
            break
    return found


def length(batch: Any) -> int:
    """How many examples a batch has: as many as its first tensor has rows."""
    first = next((one for one in leaves(batch) if one.ndim), None)
    if first is None:
        raise NotAskedError("a batch holds no tensor with rows")
    return len(first)


def take(batch: Any, rows: Any, count: int = 0) -> Any:
    """These rows of everything in a batch that has as many rows; tensors are copied."""
    count = count or length(batch)
    if isinstance(batch, Tensor):
        return batch[rows].clone() if batch.ndim and len(batch) == count else batch
    if isinstance(batch, Mapping):
        return type(batch)({name: take(one, rows, count) for name, one in batch.items()})  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(take(one, rows, count) for one in batch))
    if isinstance(batch, (list, tuple)):
        if len(batch) == count and not leaves(batch):
            return batch[rows] if isinstance(rows, slice) else [batch[int(row)] for row in rows]
        return type(batch)(take(one, rows, count) for one in batch)
    return batch


def halves(batches: Sequence[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """The rows of each batch, in two halves by chance."""
    generator = torch.Generator().manual_seed(seed)
    one, other = [], []
    for batch in batches:
        count = length(batch)
        order = torch.randperm(count, generator=generator)
        if count > 1:
            one.append(take(batch, order[: count // 2]))
            other.append(take(batch, order[count // 2 :]))
    return one, other


def some(batches: Sequence[Any], count: int) -> list[Any]:
    """The first so many rows."""
    found: list[Any] = []
    for batch in batches:
        missing = count - sum(map(length, found))
        if missing <= 0:
            break
        found.append(take(batch, slice(0, missing)))
    return found


def cut(batches: Sequence[Any], size: int) -> list[Any]:
    """The same rows in batches of at most this size."""
    return [
        take(batch, slice(start, start + size)) for batch in batches for start in range(0, max(length(batch), 1), size)
    ]


def learning_from(batches: Sequence[Any]) -> Change:
    """The program learns from these batches."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        program.train_loader = ListLoader(batches)
        yield

    return change
