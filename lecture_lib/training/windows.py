"""Windows of micro-batches: what one optimizer step learns from."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from .batches import Batch, LossFunction, Unpack, unpack
from .losses import Count, count_terms


class Window:
    """Up to K micro-batches, with the share that each has in the window's loss.

    The mean loss of the window is the sum of the micro-batches' sums over the window's count, so a micro-batch's mean
    loss has the weight count / window's count: 1/K only when all counts are equal. A micro-batch of which nothing
    counts is left out: its mean loss is 0/0.

    Attributes:
        batches: the micro-batches that have something to learn from.
        counts: how many terms the mean loss of each is the mean of.
        count: their sum.
        read: how many batches were read since the window before, those that are left out included.

    """

    def __init__(self, batches: list[Batch], counts: list[float], read: int) -> None:
        if min(counts) <= 0:
            batches = [batch for batch, count in zip(batches, counts, strict=True) if count > 0]
            counts = [count for count in counts if count > 0]
        self.batches = batches
        self.counts = counts
        self.count = sum(counts)
        self.read = read

    def __iter__(self) -> Iterator[tuple[Batch, float, float]]:
        """Each micro-batch with its weight, which sum to 1, and its count."""
        for batch, count in zip(self.batches, self.counts, strict=True):
            yield batch, count / self.count, count

    @property
    def ids(self) -> list[Any]:
        """Which examples they hold, if the loader says so."""
        return [batch.ids for batch in self.batches]


def windows(
    batches: Iterable[Any],
    size: int,
    loss_fn: LossFunction,
    count: Count | None = None,
    rule: Unpack | None = None,
    loader: object = None,
    first: int = 1,
) -> Iterator[Window]:
    """Group an epoch's batches; the last window may be shorter, and is a window like the others.

    A window's batches are read before its first forward pass, for the weights need the window's count. A window of
    which nothing counts is no step.

    Args:
        batches: what the loader gives.
        size: K, micro-batches in a window.
        loss_fn: says what a batch's count is.
        count: see `count_terms`.
        rule: see `unpack`.
        loader: see `unpack`.
        first: the number of the first batch, for messages.

    """
    numbered = enumerate(batches, first)
    read = 0
    while micro := [unpack(batch, number, rule, loader) for number, batch in islice(numbered, size)]:
        read += len(micro)
        window = Window(micro, [count_terms(loss_fn, batch, count) for batch in micro], read)
        if window.batches:
            read = 0
            yield window


def warn_when_not_exact(model: nn.Module, size: int) -> None:
    """Say when K micro-batches cannot equal one big batch: batch statistics and noise depend on the batch."""
    if size == 1:
        return
    for module in model.modules():
        noise = isinstance(module, _DropoutNd) and module.p > 0
        if module.training and (noise or isinstance(module, _BatchNorm)):
            why = "draws its noise" if noise else "takes its mean and variance"
            warnings.warn(
                f"accumulate={size}: {type(module).__name__} {why} for each micro-batch, so {size} of them are not "
                "exactly one big batch. That is a different, often good, training; GroupNorm or LayerNorm and no "
                "dropout make it exact.",
                stacklevel=3,
            )
            return
