"""The weight of each label in a mean loss, found out from the loss of a few rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._common.randomness import preserved_random_streams
from ..types import LossFunction
from .batches import Batch
from .structures import map_tensors, take_rows

ROWS = 8  # of outputs that labels are weighed with
GROUP = 64  # labels that are weighed together, for most have the same weight
# By a loss that does not take a batch.
REFUSED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class LabelWeights:
    """Asks a loss function about small batches: real outputs with labels of our choice.

    Args:
        loss_fn: outputs, labels -> mean loss of the batch.
        outputs: of the model for a batch.
        batch: that batch.

    Attributes:
        takes_parts: whether the loss takes a part of a batch.
        reliable: and gives the same number for the same part.
        tolerance: relative error of its losses.

    """

    def __init__(self, loss_fn: LossFunction, outputs: Any, batch: Batch) -> None:
        self._loss_fn = loss_fn
        self._labels = batch.labels.unique().tolist() if are_classes(batch.labels) else []
        self._classes = count_classes(outputs)
        self._weights: dict[int, float] = {}
        self._doubtful: set[int] = set()  # labels whose weight the loss does not say
        self._reference: int | None = None  # a label of weight 1, and its loss in each row
        self._losses: list[float] = []
        # At least two rows: a label counts if its loss differs between rows, see _find_reference.
        rows = torch.arange(min(ROWS, batch.examples)).repeat(1 if batch.examples > 1 else 2)
        self._rows = len(rows)
        self._sample = take_rows(batch.labels, rows, batch.examples)
        self._outputs = map_tensors(take_rows(outputs, rows, batch.examples), _set_apart)
        self.takes_parts = True
        with preserved_random_streams():
            for self._dtype in (torch.float64, torch.float32, None):  # class weights have a dtype of their own
                first = self.loss(self._outputs, self._sample)
                if self.takes_parts:
                    break
            second = self.loss(self._outputs, self._sample)
        # Not a number where all of these labels are masked.
        self.reliable = self.takes_parts and (first == second or (math.isnan(first) and math.isnan(second)))
        self.tolerance = {torch.float64: 1e-7, torch.float32: 1e-4, None: 1e-2}[self._dtype]

    def require_mean(self) -> None:
        """ValueError for a loss that is a sum over the batch."""
        if not self.reliable or self._rows < 4:
            return
        rows = torch.arange(self._rows)
        parts = (rows, rows[: self._rows // 2], rows[self._rows // 2 :])
        whole, *halves = (
            self.loss(take_rows(self._outputs, part, self._rows), take_rows(self._sample, part, self._rows))
            for part in parts
        )
        # A sum over the batch is the sum over its halves; a mean lies between theirs.
        if whole and min(map(abs, halves)) > 0 and math.isclose(whole, sum(halves), rel_tol=self.tolerance):
            raise ValueError(
                f"loss_fn gives a sum over the batch ({whole:.4g} for {self._rows} examples, {halves[0]:.4g} and "
                f"{halves[1]:.4g} for its halves); a mean is expected, so that neither the step nor the reported loss "
                "grows with batch_size. Use reduction='mean'."
            )

    def count(self, labels: Tensor, *, every_class: bool) -> float:
        """The weights of labels, summed; see `LossProbe.count`."""
        values, times = labels.unique(return_counts=True)
        relevant = [label for label in values.tolist() if every_class or not 0 <= label < self._classes]
        # Only labels that occur: on a GPU a label that is no class ends the program.
        if new := [label for label in relevant if label not in self._weights]:
            with preserved_random_streams():
                if not self._losses:
                    self._reference = self._find_reference()
                for start in range(0, len(new), GROUP):
                    self._weigh(new[start : start + GROUP])
        pairs = zip(values.tolist(), times.tolist(), strict=True)
        return math.fsum(self._weights.get(value, 1.0) * number for value, number in pairs)

    def are_even(self, labels: Any) -> bool:
        """Whether each label of a batch counts the same, so that there is nothing to be wrong about."""
        if not are_classes(labels) or not isinstance(self._sample, Tensor):
            return False
        values = labels.unique().tolist()
        return all(self._weights.get(label) == 1 for label in values) and self._doubtful.isdisjoint(values)

    @torch.no_grad()
    def loss(self, outputs: Any, labels: Any) -> float:
        """In float64 where the loss takes it, for weights come from small differences; NaN where it refuses."""
        self.takes_parts = True
        try:
            value = self._loss_fn(map_tensors(outputs, self._converted), map_tensors(labels, self._converted))
        except REFUSED:
            self.takes_parts = False
            return math.nan
        return float(value) if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex() else math.nan

    def _converted(self, tensor: Any) -> Any:
        floats = isinstance(tensor, Tensor) and tensor.is_floating_point()
        return tensor.detach().to(self._dtype or tensor.dtype) if floats else tensor

    def _find_reference(self) -> int | None:
        """A class that counts: its loss is a number and depends on the outputs. It has the weight 1.

        Taken from the first batch that was shown, which several processes have in common.
        """
        for label in [*self._labels, *range(min(2, self._classes))]:
            self._losses = [self._loss_of([label], [row]) for row in range(self._rows)]
            if all(map(math.isfinite, self._losses)) and max(self._losses) > min(self._losses):
                return label
        return None

    def _weigh(self, labels: Sequence[int]) -> None:
        """Find the weights of labels: together where all have 1 or 0, else in halves."""
        number = len(labels)
        total = self._total_weight(labels)
        if total is not None and math.isclose(total, number, rel_tol=self.tolerance):
            total = float(number)
        elif total is not None and abs(total) < self.tolerance * number:
            total = 0.0
        if number == 1 or total in (0.0, float(number)):
            self._weights |= dict.fromkeys(labels, 1.0 if total is None else total / number)
            self._doubtful |= set(labels) if total is None else set()
            return
        self._weigh(labels[: number // 2])
        self._weigh(labels[number // 2 :])

    def _total_weight(self, labels: Sequence[int]) -> float | None:
        """The sum of the weights of labels, in units of the reference's; None where the loss does not say."""
        if self._reference is None:
            return None
        number, losses = len(labels), self._losses
        own = self._loss_of(labels, range(number))
        # Beside a part whose loss is very different: of a small difference only rounding would be left.
        row = max(range(self._rows), key=lambda i: abs(losses[i] - own) if math.isfinite(own) else losses[i])
        combined = self._loss_of([*labels, *[self._reference] * number], [*range(number), *[row] * number])
        if not math.isfinite(combined):
            return None
        if math.isclose(combined, losses[row], rel_tol=1e-9 if self._dtype == torch.float64 else 1e-7):
            # The labels changed nothing, so they weigh 0, unless their loss is the same: then any weight would change
            # nothing.
            return None if own == losses[row] else 0.0
        if not math.isfinite(own) or own == combined:
            return None
        # From probe.py's identity: combined · (weight + number) = own · weight + losses[row] · number.
        weight = number * (losses[row] - combined) / (combined - own)
        return weight if weight >= 0 else None

    def _loss_of(self, labels: Sequence[int], rows: Iterable[int]) -> float:
        """The loss of rows of the sample, taken round and round, each with one label throughout."""
        indices = torch.tensor([row % self._rows for row in rows])
        sample = take_rows(self._sample, indices, self._rows)
        # An unsigned dtype would turn -100 into 156, which may be a class.
        if min(labels) < 0 and not sample.dtype.is_signed:
            return math.nan
        column = torch.tensor(labels, device=sample.device).to(sample.dtype).reshape(-1, *[1] * (sample.ndim - 1))
        return self.loss(take_rows(self._outputs, indices, self._rows), column.expand(sample.shape).clone())


def are_classes(labels: Any) -> bool:
    """Whether labels are a tensor of whole numbers."""
    return isinstance(labels, Tensor) and not labels.is_floating_point() and not labels.is_complex()


def count_classes(outputs: Any) -> int:
    """As many as there can be; 0 where outputs are no tensor."""
    return max(outputs.shape[1:], default=1) if isinstance(outputs, Tensor) else 0


def _set_apart(tensor: Any) -> Any:
    """Rows that differ, also where an untrained layer gives each example the same; probabilities stay below 1."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return tensor
    noise = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor.device)
    return tensor.detach() * (1 - 0.5 * noise) + (tensor == 0) * 0.1 * noise
