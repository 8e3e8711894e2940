"""A loader for data that fits in memory: slices of tensors, no workers, no collation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral

import torch
from torch import Tensor


class TensorLoader:
    """Batches of tensors that share their first dimension.

    Source: lecture part 2, data. On in-memory digits DataLoader's workers only cost time.

    Args:
        tensors: one or more, each [N, ...]; a batch holds the same rows of each, as copies.
        batch_size: examples in a batch, 1 or more; the last batch is shorter unless drop_last.
        shuffle: a new order each epoch; needs a seed.
        seed: starts the loader's own generator, so that the ambient random stream is neither read nor moved.
        drop_last: leave out a last batch that is shorter than batch_size.

    Attributes:
        ids: the rows of the latest batch, int64 [B]; train names them when something in it is not finite.

    Raises:
        TypeError: something is not a tensor, or batch_size is not a whole number.
        ValueError: the lengths differ, there are no examples or no batches, batch_size is below 1, or only one of
            shuffle and seed is given.

    """

    def __init__(
        self,
        *tensors: Tensor,
        batch_size: int,
        shuffle: bool = False,
        seed: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.examples = _count_examples(tensors)
        _require_count(batch_size)
        if drop_last and self.examples < batch_size:
            raise ValueError(
                f"drop_last leaves no batch: {self.examples} examples, batch_size {batch_size}. Take a "
                f"batch_size of at most {self.examples}, or drop_last=False."
            )
        if shuffle and seed is None:
            raise ValueError("shuffle=True needs seed=..., a whole number, so that the order can be repeated.")
        if seed is not None and not shuffle:
            raise ValueError(f"seed={seed} changes nothing without shuffle=True. Pass both or neither.")
        self.tensors = tensors
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.ids = torch.arange(0)
        # DataLoader has an attribute of this name too: who saves a loader's state finds it in both.
        self.generator = torch.Generator().manual_seed(seed) if seed is not None else None

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        if self.drop_last:
            return self.examples // self.batch_size
        return math.ceil(self.examples / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """One epoch."""
        return map(self.take, self.rows())

    def rows(self) -> list[Tensor]:
        """Which examples each batch of the next epoch holds, int64 [B] each."""
        if self.generator is None:
            order = torch.arange(self.examples)
        else:
            order = torch.randperm(self.examples, generator=self.generator)
        return list(order.split(self.batch_size)[: len(self)])

    def take(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The batch of these examples."""
        self.ids = rows
        # Indexing copies: a batch that is changed in place leaves the data set alone.
        return tuple(tensor[rows.to(tensor.device)] for tensor in self.tensors)


def _require_count(batch_size: object) -> None:
    if not isinstance(batch_size, Integral):
        raise TypeError(
            f"batch_size is {batch_size!r}, of type {type(batch_size).__name__}; it counts examples, for example 64. "
            "Divide with //, or convert with int(...)."
        )
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; a batch holds 1 example or more.")


def _count_examples(tensors: tuple[Tensor, ...]) -> int:
    """The common length of the tensors."""
    if not tensors:
        raise ValueError("no tensors: pass at least one, for example TensorLoader(images, labels, batch_size=64).")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"argument {position} is a {type(tensor).__name__}, not a tensor. Use torch.as_tensor.")
        if tensor.ndim == 0:
            raise ValueError(f"tensor {position} is a single number; its first dimension must count the examples.")
    lengths = [len(tensor) for tensor in tensors]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"tensors have {', '.join(map(str, lengths))} examples; they must agree. Index all with the same split."
        )
    if lengths[0] == 0:
        raise ValueError("tensors hold 0 examples. Look at how the split or the filter before made them.")
    return lengths[0]
