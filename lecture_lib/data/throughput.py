"""Does the model wait for data? Batches a second of the loader, of the step and of both, and what to change first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any

import torch
from torch import Tensor

from .._common.randomness import preserved_loader, preserved_random_streams

EPOCHS = 3  # the first may start workers that stay; the later ones show what every epoch pays
Step = Callable[[Any], object]
Clock = Callable[[], float]  # -> seconds
INSTANT = 1e-12  # seconds; a rate is finite even where a coarse clock stands still
LARGER = 8  # times the batch, to tell the cost of a batch from the cost of its examples
FIRST_FIXES = {
    "loader": "raise num_workers and measure again: batches are made one after another, in the training process",
    "loader, with workers": "cache, simplify or move the transforms to the GPU; then more workers, larger batches",
    "model": "leave the loader alone: mixed precision, a smaller model or faster hardware",
    "first batch": "move what is set up in each epoch out of __iter__, to where the loader or data set is made",
    "first batch, with workers": "pass persistent_workers=True: the workers start anew in every epoch",
    "tiny batches": "raise batch_size: a step costs nearly as much for a batch as for one several times larger",
}


@dataclass(frozen=True)
class Throughput:
    """What was measured.

    Attributes:
        loader: batches a second of the loader alone.
        step: batches a second of the step alone, on a batch held in memory.
        both: batches a second of the two together.
        waiting: share of the time together in which the step waits for data, 0 to 1.
        seconds: of an epoch, by cause: 'loader' (waiting, but for the epoch's start), 'first batch' (waiting longer for
            the first batch than for the others), 'model' (the step's cost of examples), 'tiny batches' (its cost of a
            batch, whatever the batch holds).
        bottleneck: where most of the epoch goes, a key of seconds.
        first_fix: what to try first.

    """

    loader: float
    step: float
    both: float
    waiting: float
    seconds: dict[str, float]
    bottleneck: str
    first_fix: str

    def __str__(self) -> str:
        return (
            f"loader {self.loader:.3g}, step {self.step:.3g}, both {self.both:.3g} batches/s; the step waits "
            f"{self.waiting:.0%} of the time. Bottleneck: {self.bottleneck}. First {self.first_fix}."
        )


def measure_throughput(
    loader: Any,
    step: Step,
    *,
    batches: int = 100,
    clock: Clock = time.perf_counter,
) -> Throughput:
    """Time the loader alone, the step alone and both, and name the bottleneck.

    An epoch's cost is split from the run of both: the first wait above the others (the least of the later epochs),
    the waits, the steps. The steps count as 'tiny batches' when most of a step's time is its cost of a batch: it is
    found by running the step on the same batch repeated eight times. A step whose time does not depend on the batch's
    size is therefore named so, and a loader's own cost of a batch belongs to 'loader'. When an epoch is a single
    batch, its start cannot be told from the loading. Persistent workers that are stopped before the
    epoch's end first clear what they had made; take batches of at least len(loader) to leave that out.

    The step is run for real, on larger batches too: pass a copy of a model that should stay as it is. The global
    random streams of Python, NumPy and torch, and the generators of the loader and its samplers, are put back.
    Anything else that is drawn from (a data set's own generator, say) moves on. With CUDA in use, each step is waited
    for.

    Source: lecture part 2, 'Is the GPU waiting?'.

    Args:
        loader: what training iterates over, once for each epoch.
        step: batch -> anything; the training step, the move to the device included.
        batches: at most this many of each epoch, 2 or more; an epoch's cost is scaled to len(loader) where it has one.
        clock: -> seconds.

    Returns:
        The rates, the split and the fix.

    Raises:
        TypeError: the loader is an iterator, which is used up after one epoch.
        ValueError: batches is below 2, or the loader gives none.

    """
    if batches < 2:
        raise ValueError(f"batches is {batches}; the first is told from the others, so take 2 or more, say 100.")
    if hasattr(loader, "__next__"):
        raise TypeError(
            f"the loader is a {type(loader).__name__}, gone after one epoch. Pass the loader, not iter(it)."
        )
    with preserved_random_streams(), preserved_loader(loader):
        alone = [_epoch(loader, lambda batch: None, batches, clock)[0] for _ in range(EPOCHS)]
        batch = next(iter(loader))
        small = _time(step, batch, min(batches, 20), clock)
        large = _time(step, _repeat(batch), 3, clock)
        together = [_epoch(loader, step, batches, clock) for _ in range(EPOCHS)]

    waits, steps = (list(chain(*parts)) for parts in zip(*together, strict=True))
    seconds = _split(together, _length(loader, len(together[0][0])))
    bottleneck = max(seconds, key=seconds.__getitem__)
    # small = a + b and large = a + LARGER b, where a is the cost of a batch and b that of its examples.
    fixed = min(max((LARGER * small - large) / ((LARGER - 1) * max(small, INSTANT)), 0.0), 1.0)
    if bottleneck == "model" and fixed > 0.5:
        bottleneck = "tiny batches"
    seconds |= {"model": (1 - fixed) * seconds["model"], "tiny batches": fixed * seconds["model"]}
    workers = getattr(loader, "num_workers", 0) > 0
    if bottleneck == "first batch":
        # Persistent workers do not start anew, so advising them would change nothing.
        workers = workers and not getattr(loader, "persistent_workers", False)
    fix = FIRST_FIXES.get(f"{bottleneck}, with workers") if workers else None
    total = max(sum(waits) + sum(steps), INSTANT)
    return Throughput(
        loader=sum(map(len, alone)) / max(sum(map(sum, alone)), INSTANT),
        step=1 / max(small, INSTANT),
        both=len(waits) / total,
        waiting=sum(waits) / total,
        seconds=seconds,
        bottleneck=bottleneck,
        first_fix=fix or FIRST_FIXES[bottleneck],
    )


def _epoch(loader: Any, step: Step, batches: int, clock: Clock) -> tuple[list[float], list[float]]:
    """The seconds of each wait for a batch and of each step, in a new epoch."""
    waits, steps = [], []
    start = clock()  # before iter(): there the workers start
    for batch in loader:
        waits.append(clock() - start)
        start = clock()
        step(batch)
        _synchronise()
        steps.append(clock() - start)
        if len(waits) == batches:
            break
        start = clock()
    if not waits:
        raise ValueError("the loader gives no batch. Look at the data set's length, at batch_size and drop_last.")
    return waits, steps


def _split(epochs: list[tuple[list[float], list[float]]], length: int) -> dict[str, float]:
    """Seconds of an epoch of that many batches, by cause."""
    later = [wait for waits, _ in epochs for wait in waits[1:]]
    steps = [step for _, steps in epochs for step in steps]
    first = min(waits[0] for waits, _ in epochs[1:])
    wait = sum(later) / len(later) if later else first
    return {"loader": length * wait, "first batch": max(first - wait, 0.0), "model": length * sum(steps) / len(steps)}


def _length(loader: Any, measured: int) -> int:
    try:
        return len(loader)
    except TypeError:  # an IterableDataset's loader has the method and no length
        return measured


def _time(step: Step, batch: Any, times: int, clock: Clock) -> float:
    """Seconds of a step: the median, which one interruption by another process does not move."""
    seconds = []
    for _ in range(times + 1):
        start = clock()
        step(batch)
        _synchronise()
        seconds.append(clock() - start)
    return median(seconds[1:])  # the first warms up: kernels are chosen, memory is taken


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _repeat(batch: Any) -> Any:
    """The batch LARGER times over, one after the other; copies of one batch always fit together."""
    if isinstance(batch, Tensor) and batch.ndim:
        return torch.cat([batch] * LARGER)
    if isinstance(batch, dict):
        return {name: _repeat(part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        parts = map(_repeat, batch)
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch
