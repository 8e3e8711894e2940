"""A learning-rate sweep: its set-up, its windows, and the losses of the same batches at the starting weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..accumulation import Window, windows
from ..precision import choose_precision
from ..step import TrainingStep
from ..types import Batches, Count, LossFunction, Unpack
from . import checks
from .batches import Batch, forward
from .batches import unpack as unpack_batch
from .guard import FiniteGuard
from .losses import mean_loss
from .preflight import first_outputs
from .preserve import enter_train_mode, unchanged
from .progress import Progress
from .terms import Terms

SCHEDULED = "_wrapped_by_lr_sched"
"""By this torch marks the step of an optimizer that a scheduler was made for."""


class Sweep:
    """Everything that `find_lr` works with. The constructor refuses what cannot work.

    Args: as in `find_lr`.

    """

    def __init__(
        self,
        model: nn.Module,
        loader: Batches,
        optimizer: Optimizer,
        loss_fn: LossFunction,
        accumulate: int,
        max_norm: float | None,
        precision: str,
        count: Count | None,
        unpack: Unpack | None,
        device: torch.device | str | None,
    ) -> None:
        checks.require_settings(1, accumulate, None, None, max_norm, "raise")
        checks.require_functions(count=count, unpack=unpack)
        checks.require_parts(model, optimizer, loss_fn)
        checks.require_batches(loader, "loader")
        _require_no_scheduler(optimizer)
        self._ratios = _rate_ratios(optimizer)
        self._model, self._loader, self._optimizer, self._loss_fn = model, loader, optimizer, loss_fn
        self._accumulate, self._max_norm, self._unpack = accumulate, max_norm, unpack
        self._device = checks.resolve_device(model, device)
        self._precision = choose_precision(precision, self._device)
        self._counted = count is not None
        self._terms = Terms(loss_fn, count, matters=accumulate > 1)
        if accumulate > 1:
            self._terms.observe(*first_outputs(model, loader, unpack, self._precision, self._device, "loader"))
            self._terms.require_mean()

    @contextmanager
    def trial(self) -> Iterator[TrainingStep]:
        """What takes the steps of a trial run; everything that they change is put back when it ends."""
        with unchanged(self._model, self._optimizer, self._loader):
            enter_train_mode(self._model)
            # A gradient that is not finite shows in the next loss, and the weights are put back anyway.
            guard = FiniteGuard(self._model, self._optimizer, self._precision, losses_only=True)
            yield TrainingStep(
                self._model, self._loss_fn, self._optimizer, self._device, self._precision, guard, self._terms,
                self._max_norm,
            )  # fmt: skip

    def bar(self, rates: Sequence[float], enabled: bool) -> Progress:
        """A progress bar over the steps."""
        return Progress(enabled, rates, 1, 1, 0)

    def windows(self, losses: Sequence[float]) -> Iterator[Window]:
        """The loader's windows, epoch after epoch, as `train` forms them, while `losses` grows with them."""
        for epoch in itertools.count(1):
            before = len(losses)
            yield from self._epoch()
            if len(losses) > before:
                continue
            if epoch == 1:
                raise ValueError(
                    "the loader gave 0 batches to learn from. Look at the split, at batch_size and drop_last."
                )
            raise ValueError(
                f"the loader gave nothing in epoch {epoch}, after {before} steps: it is used up after one pass. Pass a "
                "loader or a list, which can be begun again, or take fewer steps."
            )

    def _epoch(self) -> Iterator[Window]:
        loader, unpack = self._loader, self._unpack
        if self._accumulate > 1 or self._counted:
            yield from windows(loader, self._accumulate, self._loss_fn, self._terms, unpack, loader)
            return
        # Alone, a batch weighs 1 whatever it holds, and counting would cost more than all else here.
        for number, batch in enumerate(loader, 1):
            yield Window([unpack_batch(batch, number, unpack, loader)], [1.0], 1)

    def set_rate(self, rate: float) -> None:
        """Give the first group this rate, and the others theirs in proportion."""
        for group, ratio in zip(self._optimizer.param_groups, self._ratios, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * ratio)
            else:
                group["lr"] = rate * ratio

    def has_nothing_to_learn(self, window: Window) -> bool:
        """Whether all labels of a window are masked."""
        return not any(self._terms(batch) for batch in window.batches)

    def compare_with_start(self, losses: Sequence[float]) -> list[float]:
        """The losses as if all batches had the same loss at the starting weights, which removes that part of the noise.

        Empty where a loss at the start is not finite, or all are equal.
        """
        starting: list[float] = []
        with self.trial(), torch.no_grad():
            for window in self.windows(starting):
                loss = sum(self._loss(batch) * weight for batch, weight, _ in window)
                if math.isfinite(loss) or not self.has_nothing_to_learn(window):
                    starting.append(loss)
                if len(starting) == len(losses):
                    break
        if not all(map(math.isfinite, starting)) or len(set(starting)) <= 1:
            return []
        mean = sum(starting) / len(starting)
        return [loss - start + mean for loss, start in zip(losses, starting, strict=True)]

    def _loss(self, micro_batch: Batch) -> float:
        batch = micro_batch.to(self._device)
        with self._precision.autocast():
            return mean_loss(self._loss_fn, forward(self._model, batch), batch).item()


def _rate_ratios(optimizer: Optimizer) -> list[float]:
    """Each group's rate as a multiple of the first group's."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if rates[0] <= 0:
        raise ValueError(
            f"the first parameter group's rate is {rates[0]}; it must be above 0, because the others are scaled by it."
        )
    return [rate / rates[0] for rate in rates]


def _require_no_scheduler(optimizer: Optimizer) -> None:
    if hasattr(optimizer.step, SCHEDULED):
        raise ValueError(
            "a scheduler is attached to the optimizer: it was made for rates that the sweep does not use. Call find_lr "
            "first, then make the scheduler; train makes its own: schedule=one_cycle(result.suggestion)."
        )
