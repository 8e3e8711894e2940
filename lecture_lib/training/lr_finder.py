"""The learning-rate finder: raise the rate at every step and watch the loss."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim import Optimizer

from ._run import checks
from ._run.guard import NonFiniteError
from ._run.lr_result import LRFinderResult
from ._run.lr_suggestions import is_hidden_by_noise, suggest_learning_rates
from ._run.sweep import Sweep
from .types import Batches, Count, LossFunction, Unpack


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

    Model, gradients, modes, optimizer, random streams and the loader's generator are afterwards as before, bit for bit,
    also after an exception. As in train, a model in eval mode is swept in train mode, and in a model in train mode the
    modules that you put into eval mode stay there. Where noise between batches hides the trend, or the sweep is short,
    the same batches are evaluated at the starting weights, and that loss is subtracted. The rules for the
    suggestions are in `_run/lr_suggestions.py`.
    Source: L. Smith (2015), arXiv:1506.01186; lecture part 4, rung 5.

    Args:
        model: gives outputs for inputs [B, ...].
        loader: batches as `train` takes them, begun again when it is shorter than the sweep.
        optimizer: gives the method and the ratio of its groups' rates; the swept rate is the first group's.
        loss_fn: outputs, labels -> mean loss of the batch.
        start: first rate, above 0.
        stop: last rate, above start.
        steps: optimizer steps, 3 or more; each multiplies the rate by (stop / start) ** (1 / (steps - 1)).
        smoothing: share of the past in the running average, 0 (none) up to 1 (excluded). The average decides when the
            sweep has diverged, and is plotted; suggestions rest on the losses themselves.
        diverge_factor: the sweep ends when the smoothed loss exceeds this many times its lowest; above 1.
        accumulate: batches in a step, as in `train`: sweep what you will train.
        max_norm: as in `train`.
        precision: as in `train`.
        count: as in `train`.
        unpack: as in `train`.
        device: where batches go; default: where the model's parameters are.
        progress: show a bar over the steps.

    Returns:
        The curve, why it ended, and the rates that it suggests.

    Raises:
        TypeError: a setting is not a number, or a batch is not a pair of tensors.
        ValueError: the sweep or the program cannot work.

    """
    checks.require_numbers(start=start, stop=stop, smoothing=smoothing, diverge_factor=diverge_factor)
    rates = sweep_rates(start, stop, steps)
    average, lowest = RunningAverage(smoothing), math.inf
    if not diverge_factor > 1:
        raise ValueError(f"diverge_factor is {diverge_factor}; it is a multiple of the lowest loss, above 1.")
    sweep = Sweep(model, loader, optimizer, loss_fn, accumulate, max_norm, precision, count, unpack, device)
    losses: list[float] = []
    smoothed: list[float] = []
    stopped_because = f"reached stop, learning rate {stop:g}, in {steps} steps"
    with sweep.trial() as step, sweep.bar(rates, progress) as bar:
        for window in sweep.windows(losses):  # a loader that is used up is noticed by losses that do not grow
            number, rate = len(losses) + 1, rates[len(losses)]
            sweep.set_rate(rate)
            try:
                loss_sum, _ = step.learn(window)
            except NonFiniteError as error:
                if sweep.has_nothing_to_learn(window):
                    continue  # a mean of nothing is 0/0
                stopped_because = f"the {error.kind} became {error.value} at learning rate {rate:.2g}, step {number}"
                break
            losses.append(float(loss_sum) / window.count)
            smoothed.append(average.add(losses[-1]))
            lowest = min(lowest, smoothed[-1])
            bar.step()
            # For a positive loss this is diverge_factor * lowest; it also holds for losses below 0.
            if smoothed[-1] > lowest + (diverge_factor - 1) * abs(lowest):
                stopped_because = f"the loss diverged at learning rate {rate:.2g}, step {number}"
                break
            if number == steps:
                break
    swept_rates = rates[: len(losses)]
    suggestions, reason = suggest_learning_rates(swept_rates, losses)
    # Only then, because it costs another forward pass for every batch.
    if is_hidden_by_noise(losses):
        compared = sweep.compare_with_start(losses)
        if compared:
            suggestions, reason = suggest_learning_rates(swept_rates, compared)
            reason += " Each loss was compared with that of the same batch at the starting weights."
    if not losses:
        reason = f"No suggestion: {stopped_because}, before any step. Look at the inputs and at the loss function."
    return LRFinderResult(swept_rates, tuple(losses), tuple(smoothed), stopped_because, suggestions, reason)


def sweep_rates(start: float, stop: float, steps: int) -> tuple[float, ...]:
    """Rates from start to stop, both exactly, each a constant factor above the one before."""
    if not 0 < start < stop < math.inf:
        raise ValueError(f"start is {start} and stop {stop}; a sweep rises: 0 < start < stop, both finite.")
    checks.require_whole(steps, "steps", 3)
    factor = (stop / start) ** (1 / (steps - 1))
    # The last rate is `stop` itself, because the product may be off by rounding.
    return (*(start * factor**number for number in range(steps - 1)), stop)


class RunningAverage:
    """Exponential average, divided by the weight that it has gathered so far.

    Without that division the average starts at 0 and rises towards the losses, which looks like a fall that
    never was.
    """

    def __init__(self, smoothing: float) -> None:
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing is {smoothing}; the share of the past lies from 0 up to 1, 1 excluded.")
        self.smoothing = smoothing
        self._sum = self._weight = 0.0

    def add(self, loss: float) -> float:
        """The average with one more loss."""
        self._sum = self.smoothing * self._sum + (1 - self.smoothing) * loss
        self._weight = self.smoothing * self._weight + (1 - self.smoothing)
        return self._sum / self._weight
