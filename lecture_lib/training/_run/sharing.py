"""Each process's share of a loader's batches: together they are the batches that one process would read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from ...data import TensorLoader
from ..types import Batches
from .processes import Processes

# What a share of a DataLoader has in common with it.
_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
)


def share(loader: Batches, processes: Processes, name: str) -> Batches:
    """The loader itself for one process; for several, this one's share of each of its batches.

    Raises:
        TypeError: a loader that cannot be split between processes.
        ValueError: the processes have different data.

    """
    if processes.count == 1:
        return loader
    shared = Share(loader, processes, name)
    processes.require_same({f"the number of examples of {name}": shared.examples})
    return shared


class Share:
    """One process's examples of each batch: those at rank, rank + count, ... of it.

    The first process draws the order and tells the others, so that no example is read twice, whatever the random
    streams. A process of which a short batch has no example reads the batch's first one, which then counts for nothing
    (DistributedDataParallel needs every process in every step).

    Attributes:
        loader: the whole one.
        examples: in its data set.
        ids: of the latest batch, if the loader names them.
        stands_in: whether the latest batch counts for nothing.

    """

    def __init__(self, loader: Batches, processes: Processes, name: str) -> None:
        self.loader = loader
        self.processes = processes
        self.ids: Any = None
        self.stands_in = False
        self._rows: list[Any] = []
        if isinstance(loader, TensorLoader):
            self.examples = loader.examples
            return
        if (
            not isinstance(loader, DataLoader)
            or loader.batch_sampler is None
            or isinstance(loader.dataset, IterableDataset)
        ):
            raise TypeError(
                f"{name} is a {type(loader).__name__}, which cannot be divided among processes. Pass a "
                "TensorLoader, or a DataLoader with a batch_size over a data set with __getitem__."
            )
        if isinstance(loader.sampler, DistributedSampler):
            raise TypeError(
                f"{name} has a DistributedSampler, which counts some examples twice. Pass the loader of one process, "
                "with shuffle=True: train gives each process its share of every batch."
            )
        self.examples = len(loader.dataset)  # type: ignore[arg-type]
        reader_settings = {key: getattr(loader, key) for key in _KEPT}
        self._noise = torch.Generator()
        # Its sampler is a list that each epoch fills anew; its workers' noise is this process's own.
        self._reader = DataLoader(loader.dataset, batch_sampler=self._rows, generator=self._noise, **reader_settings)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        """One epoch."""
        order, seed = self.processes.from_first(self._draw() if self.processes.first else None)
        rank, count = self.processes.rank, self.processes.count
        self._rows[:] = [batch[rank::count] if len(batch) > rank else batch[:1] for batch in order]
        if not isinstance(self.loader, TensorLoader):
            # Other noise in each process; the sum must stay in the range that manual_seed takes.
            self._noise.manual_seed((seed + rank) % 2**63)
        batches = map(self.loader.take, self._rows) if isinstance(self.loader, TensorLoader) else iter(self._reader)
        return self._read(batches, [len(batch) <= rank for batch in order])

    def _read(self, batches: Iterator[Any], stand_ins: list[bool]) -> Iterator[Any]:
        for batch, self.stands_in in zip(batches, stand_ins, strict=True):
            self.ids = getattr(self.loader, "ids", None)
            yield batch

    def _draw(self) -> tuple[list[Any], int]:
        """Which examples each batch of the next epoch holds, and a seed for the workers, drawn as one process would."""
        if isinstance(self.loader, TensorLoader):
            return self.loader.rows(), 0
        assert isinstance(self.loader, DataLoader)
        # A DataLoader draws the seed of its workers before it asks its sampler.
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator))
        return [list(batch) for batch in self.loader.batch_sampler], seed  # type: ignore[union-attr]
