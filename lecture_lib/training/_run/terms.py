"""How many terms the mean loss of a batch is the mean of: its weight among other batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..types import Count, LossFunction
from .batches import Batch, describe
from .losses import ENTRY_BY_ENTRY, ENTRY_BY_ENTRY_FUNCTIONS
from .probe import LossProbe

_ELEMENTWISE = (*ENTRY_BY_ENTRY, nn.BCELoss, nn.BCEWithLogitsLoss)
_OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)
_ELEMENTWISE_FUNCTIONS = (
    *ENTRY_BY_ENTRY_FUNCTIONS,
    F.binary_cross_entropy,
    F.binary_cross_entropy_with_logits,
)


class Terms:
    """Counts the terms of batches.

    Cross-entropy divides by the labels that are not ignored, each with its class's weight; losses of single entries by
    the entries. A `functools.partial` of these is known too. What any other loss divides by is found out from its
    values, see `probe.LossProbe`; where that is impossible and matters, `verify` asks for `count`.

    Args:
        loss_fn: outputs, labels -> mean loss of the batch.
        count: labels -> the number; 0 means that nothing in the batch is learned from.
        matters: whether a batch is weighed against others. Else a loss that is not known is only asked about labels
            that are no class, such as -100.

    """

    def __init__(self, loss_fn: LossFunction, count: Count | None, *, matters: bool) -> None:
        self.matters = matters
        self._count = count
        self._known_count = None if count is not None else known_count(loss_fn)
        self._probe = LossProbe(loss_fn) if count is None and self._known_count is None else None

    def observe(self, outputs: Any, batch: Batch) -> None:
        """Remember a batch and its outputs, for questions to the loss; call it before the first count."""
        if self._probe is not None:
            self._probe.observe(outputs, batch)

    def require_mean(self) -> None:
        """ValueError for a loss that is a sum over the batch."""
        if self._probe is not None:
            self._probe.require_mean()

    def __call__(self, batch: Batch) -> float:
        """How many terms the batch's mean loss is the mean of.

        Raises:
            ValueError: `count` gave no number from 0 up.

        """
        if self._count is not None:
            return _given_count(self._count, batch)
        # A structure of labels does not show how many terms it makes, so each example counts once.
        if not isinstance(batch.labels, Tensor):
            return batch.examples
        if self._known_count is not None:
            return self._known_count(batch.labels)
        assert self._probe is not None
        return self._probe.count(batch, every_class=self.matters)

    def verify(self, outputs: Any, batch: Batch) -> None:
        """Refuse a loss that is not a mean over the terms that were counted.

        Raises:
            ValueError: the loss is not such a mean, or cannot be examined.

        """
        if self._probe is not None and self.matters and not batch.stands_in:
            self._probe.verify(outputs, batch)

    def ignored(self, batch: Batch) -> Tensor | None:
        """Which of the labels [B] are masked; None where labels are no classes."""
        labels = batch.labels
        if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.ndim != 1:
            return None
        labels = labels.long()  # an unsigned dtype would compare with 156 in place of -100
        if self._known_count is not None:
            ignore_index = getattr(self._known_count, "keywords", {}).get("ignore_index")
            return None if ignore_index is None else labels == ignore_index
        masked = torch.zeros_like(labels, dtype=torch.bool)
        for value in labels.unique().tolist():
            # What counts for nothing when it is alone.
            alone = Batch(None, torch.full_like(labels[:1], value), None, batch.number)
            if self(alone) == 0:
                masked |= labels == value
        return masked


def known_count(loss_fn: LossFunction) -> Callable[[Tensor], float] | None:
    """The count of torch's own losses, from the labels; None for any other."""
    function, settings = peel(loss_fn)
    own_forward = getattr(type(function), "forward", None)  # a subclass may compute anything else
    if function in (F.cross_entropy, F.nll_loss):
        ignore_index, weight = settings.get("ignore_index", -100), settings.get("weight")
        return partial(_count_classes, ignore_index=ignore_index, weight=weight)
    if settings:
        return _count_entries if function in _ELEMENTWISE_FUNCTIONS else None
    if own_forward in [kind.forward for kind in _OF_CLASSES]:
        return partial(_count_classes, ignore_index=function.ignore_index, weight=function.weight)
    elementwise = function in _ELEMENTWISE_FUNCTIONS or own_forward in [kind.forward for kind in _ELEMENTWISE]
    return _count_entries if elementwise else None


def peel(loss_fn: Any) -> tuple[Any, dict[str, Any]]:
    """The function inside `functools.partial`, and the settings that it is called with."""
    settings: dict[str, Any] = {}
    while isinstance(loss_fn, partial) and not loss_fn.args:
        settings = {**loss_fn.keywords, **settings}
        loss_fn = loss_fn.func
    return loss_fn, settings


def _count_entries(labels: Tensor) -> float:
    return labels.numel()


def _count_classes(labels: Tensor, ignore_index: int, weight: Tensor | None) -> float:
    if labels.is_floating_point():  # probabilities [B, C, ...]: the mean is over all but the classes
        return labels.numel() / labels.shape[1] if labels.ndim > 1 else labels.numel()
    counted = labels.long() != ignore_index  # as an unsigned label, -100 would be 156
    if weight is None:
        return float(counted.sum())
    indices = labels[counted & (labels >= 0) & (labels < len(weight))].long()
    return float(weight.detach().to(labels.device, torch.float64)[indices].sum())


def _given_count(count: Count, batch: Batch) -> float:
    counted = count(batch.labels)
    is_number = counted.numel() == 1 if isinstance(counted, Tensor) else isinstance(counted, int | float)
    number = float(counted) if is_number else -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(
            f"batch {batch.number}: count gave {counted} for labels {describe(batch.labels)}; it counts what the mean "
            "loss is the mean of, 0 or more. For masked labels: count=lambda labels: (labels != -100).sum()"
        )
    return number
