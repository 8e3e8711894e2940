"""Windows of micro-batches: what one optimizer step learns from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ._run import checks
from ._run.batches import Batch, unpack
from ._run.processes import ALONE, Processes
from ._run.terms import Terms
from .types import Count, LossFunction, Unpack


class Window:
    """Up to K micro-batches, with the share that each has in the window's loss.

    To be exactly the mean over one big batch, a micro-batch's mean loss is weighted by its number of labels divided by
    the window's: 1/K only when all micro-batches have equally many. Masked labels do not count, and a micro-batch
    without a label that counts is left out, because its mean loss is 0/0.

    Attributes:
        batches: the micro-batches that have something to learn from.
        counts: how many labels the mean loss of each averages over.
        count: their sum.
        divisor: a micro-batch's weight is its count / divisor. The window's count; with N processes that of all of them
            / N, because DistributedDataParallel averages the gradients.
        read: how many batches were read since the last window, including those that were left out.

    """

    def __init__(self, batches: list[Batch], counts: list[float], read: int, processes: Processes = ALONE) -> None:
        self.count = self.divisor = sum(counts)
        if processes.count > 1:
            self.divisor = processes.sum(self.count)[0] / processes.count
        if min(counts) <= 0:
            learned = [(batch, count) for batch, count in zip(batches, counts, strict=True) if count > 0]
            if self.divisor > 0 and not learned:
                learned = [(replace(batches[0], stands_in=True), 0.0)]  # every process takes part in every step
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
        """Which examples each micro-batch holds, if the loader says so."""
        return [batch.ids for batch in self.batches]


def windows(
    batches: Iterable[Any],
    size: int,
    loss_fn: LossFunction,
    count: Count | Terms | None = None,
    rule: Unpack | None = None,
    loader: object = None,
    first: int = 1,
    processes: Processes = ALONE,
) -> Iterator[Window]:
    """Group an epoch's batches; the last window may be shorter.

    A window's batches are read before its first forward pass, because the weights need the window's count. A window
    without a label that counts is skipped.

    Args:
        batches: what the loader gives.
        size: K, micro-batches in a window.
        loss_fn: the count of a batch is found out from it, unless `count` is given.
        count: labels -> how many of them the batch's mean loss averages over.
        rule: batch -> (inputs, labels), for batches that are not pairs, longer tuples or dicts.
        loader: who gave the batches; may name the examples of its latest batch in `ids`.
        first: the number of the first batch, for messages.
        processes: each reads its own share of the same windows.

    """
    terms = count if isinstance(count, Terms) else Terms(loss_fn, count, matters=True)
    numbered = enumerate(batches, first)
    read = 0
    while micro := [unpack(batch, number, rule, loader) for number, batch in islice(numbered, size)]:
        read += len(micro)
        counts = [0.0 if batch.stands_in else terms(batch) for batch in micro]
        window = Window(micro, counts, read, processes)
        # A skipped window adds its batches to the next one's `read`: a resumed epoch passes over all that were read.
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
        # SyncBatchNorm takes its statistics over all processes, but for each micro-batch apart.
        statistics = isinstance(module, _BatchNorm) and not (size == 1 and isinstance(module, nn.SyncBatchNorm))
        if module.training and (noise or statistics):
            setting = f"accumulate={size}" if shares == 1 else f"{shares} processes, accumulate={size}"
            why = "draws its noise" if noise else "takes its mean and variance"
            checks.warn_caller(
                f"{setting}: {type(module).__name__} {why} for each part of the batch, so {size * shares} parts are "
                "not exactly one big batch. Results may still be good; with GroupNorm or LayerNorm and without dropout "
                "it is exact."
            )
            return
