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
from .processes import ALONE, Processes


class Window:
    """Up to K micro-batches, with the share that each has in the window's loss.

    The mean loss of the window is the sum of the micro-batches' sums over the window's count, so a micro-batch's mean
    loss has the weight count / window's count: 1/K only when all counts are equal. A micro-batch of which nothing
    counts is left out: its mean loss is 0/0.

    Attributes:
        batches: the micro-batches that have something to learn from.
        counts: how many terms the mean loss of each is the mean of.
        count: their sum.
        divisor: what the counts are divided by for the weights: the sum, or with several processes its mean over them,
            because the gradients are averaged over the processes.
        read: how many batches were read since the window before, those that are left out included.

    """

    def __init__(self, batches: list[Batch], counts: list[float], read: int, processes: Processes = ALONE) -> None:
        self.count = self.divisor = sum(counts)
        if processes.count > 1:
            self.divisor = processes.sum(self.count)[0] / processes.count
        if min(counts) <= 0:
            learned = [(batch, count) for batch, count in zip(batches, counts, strict=True) if count > 0]
            if self.divisor > 0 and not learned:
                learned = [(batches[0], 0.0)]  # every process takes part in every step
            batches, counts = [batch for batch, _ in learned], [count for _, count in learned]
        self.batches = batches
        self.counts = counts
        self.read = read

    def __iter__(self) -> Iterator[tuple[Batch, float, float]]:
        """Each micro-batch with its weight in the window's loss, and its count."""
        for batch, count in zip(self.batches, self.counts, strict=True):
            yield batch, count / self.divisor, count

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
    processes: Processes = ALONE,
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
        processes: each reads its own share of the same windows.

    """
    numbered = enumerate(batches, first)
    read = 0
    while micro := [unpack(batch, number, rule, loader) for number, batch in islice(numbered, size)]:
        read += len(micro)
        counts = [0.0 if batch.stands_in else count_terms(loss_fn, batch, count) for batch in micro]
        window = Window(micro, counts, read, processes)
        if window.batches:
            read = 0
            yield window


def warn_when_not_exact(model: nn.Module, size: int, processes: Processes = ALONE) -> None:
    """Say when K micro-batches or shares cannot equal one big batch: batch statistics and noise depend on the batch."""
    shares = processes.count
    if size == shares == 1 or not processes.first:
        return
    for module in model.modules():
        noise = isinstance(module, _DropoutNd) and module.p > 0
        statistics = isinstance(module, _BatchNorm) and not (size == 1 and isinstance(module, nn.SyncBatchNorm))
        if module.training and (noise or statistics):
            setting = f"accumulate={size}" if shares == 1 else f"{shares} processes, accumulate={size}"
            why = "draws its noise" if noise else "takes its mean and variance"
            warnings.warn(
                f"{setting}: {type(module).__name__} {why} for each part of the batch, so {size * shares} of them are "
                "not exactly one big batch. That is a different, often good, training; GroupNorm or LayerNorm and no "
                "dropout make it exact.",
                stacklevel=3,
            )
            return
