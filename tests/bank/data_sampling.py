"""Loaders that give the examples in an unfortunate order, some of them only, or several times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    get_worker_info,
)

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import generator, shuffled
from .programs import BASES, PARTS, make


def sorted_examples(base: str) -> TensorDataset:
    """Training examples, class after class, or from low to high targets."""
    data = PARTS[base].data()
    order = data.y.flatten().argsort(stable=True)
    return TensorDataset(data.x[order], data.y[order])


@case("D15", "files of a class after those of another", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, train_loader=DataLoader(sorted_examples(base), batch_size=64 if base == "shapes" else 16))


@case("D15", "folders put together", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    folders = [TensorDataset(data.x[data.y == c], data.y[data.y == c]) for c in data.y.unique()]
    everything = ConcatDataset(folders)
    sampler = BatchSampler(SequentialSampler(everything), 20, drop_last=False)
    return make(base, seed, train_loader=DataLoader(everything, batch_sampler=sampler))


class Buffered(IterableDataset):
    """A stream that is shuffled in a buffer, as records that lie one after the other in a file are."""

    def __init__(self, records: TensorDataset, size: int, seed: int) -> None:
        self.records, self.size, self.random = records, size, random.Random(seed)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        buffer: list[tuple[Tensor, ...]] = []
        for record in self.records:
            buffer.append(record)
            if len(buffer) == self.size:
                yield buffer.pop(self.random.randrange(self.size))
        self.random.shuffle(buffer)
        yield from buffer


@case("D15", "shuffle buffer smaller than a class", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    records = sorted_examples(base)
    spec = replace(PARTS[base].spec, examples=len(records))
    return make(base, seed, spec, train_loader=DataLoader(Buffered(records, 32, seed), batch_size=16))


@case("D34", "break of a debugging session", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for i, (x, y) in enumerate(p.train_loader):
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()
            if i == 1:
                break

    return make(base, seed, train_epoch=train_epoch)


@case("D34", "subset of the first try", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    small = Subset(TensorDataset(data.x, data.y), range(100))
    return make(base, seed, replace(PARTS[base].spec, examples=len(data.x)), train_loader=shuffled(small, seed))


@case("D34", "the same batch in every step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        x, y = next(iter(p.train_loader))
        for _ in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()

    p, spec = make(base, seed, train_epoch=train_epoch)
    p.train_loader = DataLoader(p.train_loader.dataset, batch_size=64)
    return p, spec


@case("D34", "indices of another split in the sampler", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    indices = torch.randperm(len(data.x), generator=generator(1))
    _train, held_back = indices[80:], indices[:80]  # for choosing hyper-parameters
    sampler = SubsetRandomSampler(held_back.tolist(), generator=generator(seed))
    spec = replace(PARTS[base].spec, examples=len(data.x) - 80)
    return make(base, seed, spec, train_loader=DataLoader(TensorDataset(data.x, data.y), 64, sampler=sampler))


class Stream(IterableDataset):
    """Records that come one after the other; each worker reads all of them."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for i in torch.randperm(len(self.x)).tolist():
            yield self.x[i], self.y[i]


class Offset(Stream):
    """Records of which a worker takes those from its number on, and forgets to step over the others'."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        first, epoch = (worker.id, worker.seed - worker.id) if worker else (0, torch.initial_seed())
        rows = torch.randperm(len(self.x), generator=generator(epoch)).tolist()  # the same in each worker
        for i in islice(rows, first, None):
            yield self.x[i], self.y[i]


def streamed(base: str, seed: int, kind: type[Stream]) -> tuple[Program, Spec]:
    """A base program whose training examples come from two worker processes."""
    data = PARTS[base].data()
    loader = DataLoader(kind(data.x, data.y), batch_size=64, num_workers=2)
    return make(base, seed, replace(PARTS[base].spec, examples=len(data.x), epochs=10), train_loader=loader)


@case("D32", "each worker reads everything", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return streamed(base, seed, Stream)


@case("D32", "workers start apart but do not step", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return streamed(base, seed, Offset)
