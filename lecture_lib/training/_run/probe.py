"""What a loss function divides by, found out from its values.

A mean over weighted terms has one property that needs no knowledge of the terms: for two parts S and T of a batch,

    loss(S and T) · (count(S) + count(T)) = loss(S) · count(S) + loss(T) · count(T).

With two parts of one label each it gives the ratio of the counts, and so the weight of each label (0 for one that is
masked). With two halves of a batch it says whether counts from these weights are right.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..._common.randomness import preserved_random_streams
from ..types import LossFunction
from .batches import Batch
from .label_weights import LabelWeights, are_classes, count_classes
from .structures import take_rows

ASK = (
    "So it is not known how much each batch counts. Pass count=, a function of the labels. For masked labels: "
    "count=lambda labels: (labels != -100).sum(); where each example counts the same: count=lambda labels: "
    "len(labels). A loss that compares examples with each other has none: take each step from one batch, accumulate=1."
)


class LossProbe:
    """Counts what a loss that is not known divides by; asks it only where that is needed.

    Args:
        loss_fn: outputs, labels -> mean loss of the batch.

    """

    def __init__(self, loss_fn: LossFunction) -> None:
        self._loss_fn = loss_fn
        self._example: tuple[Any, Batch] | None = None
        self._label_weights: LabelWeights | None = None

    def observe(self, outputs: Any, batch: Batch) -> None:
        """Remember a batch and its outputs; the loss is not asked yet."""
        if self._example is None:
            # The labels are enough: inputs of the same length and without content keep no batch in memory.
            self._example = outputs, replace(batch, inputs=torch.empty(batch.examples, 0))

    def require_mean(self) -> None:
        """ValueError for a loss that is a sum over the batch."""
        self._weights().require_mean()

    def count(self, batch: Batch, *, every_class: bool) -> float:
        """The weights of a batch's labels, summed; its examples where labels are no classes.

        Args:
            batch: whose labels are counted.
            every_class: weigh each class; else only labels that are no class, such as -100.

        """
        labels = batch.labels
        if self._example is None or not are_classes(labels) or not labels.numel():
            return batch.examples
        if not every_class:
            low, high = (int(end) for end in labels.aminmax())
            # Only a label that is no class, such as -100, could be masked, and there is none.
            if low >= 0 and high < count_classes(self._example[0]):
                return labels.numel()
        weights = self._weights()
        return weights.count(labels, every_class=every_class) if weights.reliable else batch.examples

    def verify(self, outputs: Any, batch: Batch) -> None:
        """Compare the loss of a batch with that of its halves.

        Raises:
            ValueError: it is no mean over what was counted.

        """
        weights = self._weights()
        # One example has no halves, and where all labels weigh the same the count cannot be wrong.
        if batch.examples < 2 or (weights.reliable and weights.are_even(batch.labels)):
            return
        if not weights.reliable:
            if not weights.takes_parts:
                raise ValueError(f"batch {batch.number}: loss_fn cannot be asked about a part of a batch. {ASK}")
            return  # it draws
        rows = torch.arange(batch.examples)
        parts = (rows, rows[: len(rows) // 2], rows[len(rows) // 2 :])
        labels = [take_rows(batch.labels, part, batch.examples) for part in parts]
        counts = [self.count(Batch(None, own, None, batch.number), every_class=True) for own in labels]
        with preserved_random_streams():
            whole, *halves = (
                weights.loss(take_rows(outputs, part, batch.examples), own) if count else 0.0
                for part, own, count in zip(parts, labels, counts, strict=True)
            )
        if not counts[0] or (not math.isfinite(whole) and all(map(math.isfinite, halves))):
            return
        expected = (halves[0] * counts[1] + halves[1] * counts[2]) / counts[0]
        rounding = weights.tolerance * max(map(abs, (whole, *halves)))
        # Not `>`, which would let NaN pass.
        if not abs(whole - expected) <= rounding:
            raise ValueError(
                f"batch {batch.number}: loss_fn is no mean over the batch's labels. The halves of the batch have the "
                f"losses {halves[0]:.6g} and {halves[1]:.6g}, so the whole should have {expected:.6g} and has "
                f"{whole:.6g}. {ASK}"
            )

    def _weights(self) -> LabelWeights:
        assert self._example is not None, "observe was not called"
        if self._label_weights is None:
            self._label_weights = LabelWeights(self._loss_fn, *self._example)
        return self._label_weights
