"""What a training program is made of: the types in the signatures of train, evaluate and find_lr."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Batches = Iterable[Any]
"""A loader: for each epoch, batches (inputs [B, ...], labels [B, ...]) or another structure of them."""

Unpack = Callable[[Any], tuple[Any, Any]]
"""Batch as the loader gives it -> inputs, labels."""

LossFunction = Callable[[Any, Any], Tensor]
"""Outputs, labels -> the batch's mean loss, a scalar tensor."""

Count = Callable[[Any], float | Tensor]
"""Labels -> how many of them the batch's mean loss averages over."""

Schedule = Callable[[Optimizer, int], LRScheduler]
"""Optimizer, total number of optimizer steps -> a scheduler that is stepped after each of them."""


class MetricObject(Protocol):
    """A metric that gathers what it needs batch by batch, as those of torchmetrics and torcheval do."""

    def reset(self) -> Any:
        """Forget all batches."""

    def update(self, outputs: Any, labels: Any, /) -> Any:
        """Take a batch in."""

    def compute(self) -> Any:
        """The metric of all batches since the reset."""


Metric = Callable[[Any, Any], Any] | MetricObject
"""Outputs and labels of the whole data set -> a number."""
