"""The learning-rate finder: raise the rate at every step and watch the loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from numbers import Real

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..training import checks
from ..training.batches import Batches, LossFunction, Unpack
from ..training.batches import unpack as unpack_batch
from ..training.finite import FiniteGuard, Moment, NonFiniteError
from ..training.losses import Count, count_terms
from ..training.precision import choose_precision
from ..training.preserve import enter_train_mode
from ..training.progress import Progress
from ..training.recipe import Recipe
from ..training.windows import Window, windows
from .lr_result import LRFinderResult
from .lr_suggestions import suggest_learning_rates
from .unchanged import unchanged


def find_lr(
    model: nn.Module,
    loader: Batches,
    optimizer: Optimizer,
    loss_fn: LossFunction,
    *,
    start: float = 1e-6,
    stop: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.9,
    diverge_factor: float = 4.0,
    accumulate: int = 1,
    max_norm: float | None = None,
    precision: str = "fp32",
    count: Count | None = None,
    unpack: Unpack | None = None,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> LRFinderResult:
    """Train with a rate that rises exponentially, record the loss of each step, and put everything back.

    Model, gradients, modes, optimizer, random streams and the loader's generator are afterwards as before,
    bit for bit, also after an exception. As in train, a model in eval mode is swept in train mode, and in a model in
    train mode the modules that you put into eval mode stay there.
    Source: L. Smith (2015), arXiv:1506.01186; lecture part 4, rung 5.

    Args:
        model: gives outputs for inputs [B, ...].
        loader: batches as `train` takes them, begun again when it is shorter than the sweep.
        optimizer: gives the method and the ratio of its groups' rates; the swept rate is the first group's.
        loss_fn: outputs, labels -> mean loss of the batch.
        start: first rate, above 0.
        stop: last rate, above start.
        steps: optimizer steps, 3 or more; each multiplies the rate by (stop / start) ** (1 / (steps - 1)).
        smoothing: share of the past in the running average, 0 (none) up to 1 (excluded).
        diverge_factor: the sweep ends when the smoothed loss exceeds this many times its lowest; above 1.
        accumulate: batches in a step, as in `train`: sweep what you will train.
        max_norm: of the gradient, as in `train`.
        precision: as in `train`.
        count: as in `train`.
        unpack: as in `train`.
        device: where batches go; default: where the model's parameters are.
        progress: show a bar over the steps.

    Returns:
        The curve, why it ended, and the rates that it suggests.

    Raises:
        TypeError: a setting is no number, or a batch no pair of tensors.
        ValueError: the sweep or the program cannot work.

    """
    _check_settings(start=start, stop=stop, smoothing=smoothing, diverge_factor=diverge_factor)
    rates = sweep_rates(start, stop, steps)
    checks.require_settings(1, accumulate, None, None, max_norm, "raise")
    checks.require_functions(count=count, unpack=unpack)
    checks.require_trainable(model, optimizer)
    checks.require_batches(loader, "loader")
    checks.require_loss_function(loss_fn)
    _require_no_scheduler(optimizer)
    ratios = _rate_ratios(optimizer)
    device = checks.resolve_device(model, device)
    number_format = choose_precision(precision, device)

    losses: list[float] = []
    smoothed: list[float] = []
    average, best = RunningAverage(smoothing), math.inf
    stopped_because = f"reached stop, learning rate {stop:g}, in {steps} steps"
    with unchanged(model, optimizer, loader), Progress(progress, rates, 1, 1, 0) as bar:
        enter_train_mode(model)
        guard = FiniteGuard(model, optimizer, deferred=False)
        # A gradient that is not finite shows in the next loss, and the weights are put back anyway.
        recipe = Recipe(
            model, loss_fn, optimizer, device, number_format, guard, max_norm, "raise", check_gradients=False
        )
        moment = Moment()
        for window in _endless(loader, accumulate, loss_fn, count, unpack, losses):
            number, rate = len(losses) + 1, rates[len(losses)]
            moment.step, moment.learning_rate = number, rate
            _set_rates(optimizer, rate, ratios)
            try:
                loss_sum, _ = recipe.learn(window, moment, {})
            except NonFiniteError as error:
                if not any(count_terms(loss_fn, batch, count) for batch in window.batches):
                    continue  # a mean of nothing is 0/0
                stopped_because = f"the {error.what} became {error.value} at learning rate {rate:.2g}, step {number}"
                break
            losses.append(float(loss_sum) / window.count)
            smoothed.append(average.add(losses[-1]))
            best = min(best, smoothed[-1])
            bar.step()
            # For a positive loss this is diverge_factor * best; it also holds for losses below 0.
            if smoothed[-1] > best + (diverge_factor - 1) * abs(best):
                stopped_because = f"the loss diverged at learning rate {rate:.2g}, step {number}"
                break
            if number == steps:
                break
    used = rates[: len(losses)]
    suggestions, reason = suggest_learning_rates(used, losses)
    if not losses:
        reason = f"No suggestion: {stopped_because}, before any step. Look at the inputs and at the loss function."
    return LRFinderResult(used, tuple(losses), tuple(smoothed), stopped_because, suggestions, reason)


def sweep_rates(start: float, stop: float, steps: int) -> tuple[float, ...]:
    """Rates from start to stop, both exactly, each a constant factor above the one before."""
    if not 0 < start < stop < math.inf:
        raise ValueError(f"start is {start} and stop {stop}; a sweep rises: 0 < start < stop, both finite.")
    checks.require_whole(steps, "steps", 3)
    factor = (stop / start) ** (1 / (steps - 1))
    return (*(start * factor**number for number in range(steps - 1)), stop)


class RunningAverage:
    """Exponential average, divided by the weight that it has gathered so far.

    Without that division the average starts at 0 and rises towards the losses, which looks like a fall that
    never was.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing
        self._sum = self._weight = 0.0

    def add(self, loss: float) -> float:
        """The average with one more loss."""
        self._sum = self.smoothing * self._sum + (1 - self.smoothing) * loss
        self._weight = self.smoothing * self._weight + (1 - self.smoothing)
        return self._sum / self._weight


def _check_settings(*, start: float, stop: float, smoothing: float, diverge_factor: float) -> None:
    settings = {"start": start, "stop": stop, "smoothing": smoothing, "diverge_factor": diverge_factor}
    for name, value in settings.items():
        if not isinstance(value, Real):
            raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; pass a number, without quotes.")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing is {smoothing}; the share of the past lies from 0 up to 1, 1 excluded.")
    if not diverge_factor > 1:
        raise ValueError(f"diverge_factor is {diverge_factor}; it is a multiple of the lowest loss, above 1.")


def _rate_ratios(optimizer: Optimizer) -> list[float]:
    """Each group's rate as a multiple of the first group's."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if rates[0] <= 0:
        raise ValueError(
            f"the first parameter group's rate is {rates[0]}; the others are scaled by it, so it is above 0."
        )
    return [rate / rates[0] for rate in rates]


def _require_no_scheduler(optimizer: Optimizer) -> None:
    """torch marks the step of an optimizer that a scheduler was made for."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        raise ValueError(
            "a scheduler is attached to the optimizer: it was made for rates that the sweep does not use. Call find_lr "
            "first, then make the scheduler; train makes its own: schedule=one_cycle(result.suggestion)."
        )


def _set_rates(optimizer: Optimizer, rate: float, ratios: Sequence[float]) -> None:
    for group, ratio in zip(optimizer.param_groups, ratios, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * ratio)
        else:
            group["lr"] = rate * ratio


def _endless(
    loader: Batches,
    size: int,
    loss_fn: LossFunction,
    count: Count | None,
    rule: Unpack | None,
    losses: Sequence[float],
) -> Iterator[Window]:
    """The loader's windows, epoch after epoch, as `train` forms them, while `losses` grows with them."""
    for epoch in itertools.count(1):
        before = len(losses)
        if size > 1 or count is not None:
            yield from windows(loader, size, loss_fn, count, rule, loader)
        else:  # alone, a batch weighs 1 whatever it holds, and counting would cost more than all else here
            for number, batch in enumerate(loader, 1):
                yield Window([unpack_batch(batch, number, rule, loader)], [1.0], 1)
        if len(losses) > before:
            continue
        if epoch == 1:
            raise ValueError("the loader gave 0 batches to learn from. Look at the split, at batch_size and drop_last.")
        raise ValueError(
            f"the loader gave nothing in epoch {epoch}, after {before} steps: it is used up after one pass. Pass a "
            "loader or a list, which can be begun again, or take fewer steps."
        )
