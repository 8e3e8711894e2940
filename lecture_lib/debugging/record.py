"""Record a training loop that was written without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.optim import Optimizer

from ._engine.events import Recording
from .recorder import Recorder


@contextmanager
def record(model: nn.Module, *optimizers: Optimizer) -> Iterator[Recording]:
    """Record a training loop as it is, then ask `find_faults` about the recording.

    The loop runs as ever; at a few of its steps gradients are computed a second time.

    Args:
        model: what is trained.
        optimizers: what train it, one or more.

    """
    with Recorder(model, optimizers) as recorder:
        yield recorder.recording
