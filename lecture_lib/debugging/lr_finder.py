"""The learning-rate finder: raise the rate at every step and watch the loss."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lecture_lib.debugging.lr_result import LRFinderResult
from lecture_lib.debugging.lr_suggestions import suggest_learning_rates
from lecture_lib.debugging.unchanged import unchanged
from lecture_lib.training.checks import require_batches, require_mean_loss, require_trainable
from lecture_lib.training.evaluate import Batches, LossFunction, require_mean, resolve_device


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
    device: torch.device | str | None = None,
) -> LRFinderResult:
    """Train with a rate that rises exponentially, record the loss of each step, and put everything back.

    loader: batches of (inputs [B, ...], labels [B, ...]), begun again when it is shorter than the sweep
    optimizer: gives the method and the ratio of its groups' rates; the swept rate is the first group's
    loss_fn: outputs, labels -> mean loss of the batch
    start, stop: first and last rate, 0 < start < stop
    steps: 3 or more; each multiplies the rate by (stop / start) ** (1 / (steps - 1))
    smoothing: share of the past in the running average, 0 (none) up to 1 (excluded)
    diverge_factor: the sweep ends when the smoothed loss exceeds this many times its lowest; above 1
    device: where batches go; default: where the model's parameters are

    Model, gradients, modes, optimizer, random streams and the loader's generator are afterwards as before,
    bit for bit, also after an exception. Raises ValueError for a sweep or a program that cannot work.
    Source: L. Smith (2015), arXiv:1506.01186; lecture part 4, rung 5.
    """
    rates = sweep_rates(start, stop, steps)
    _check_settings(smoothing, diverge_factor)
    require_trainable(model, optimizer)
    require_batches(loader, "loader")
    require_mean_loss(loss_fn)
    ratios = _rate_ratios(optimizer)
    device = resolve_device(model, device)

    losses: list[float] = []
    smoothed: list[float] = []
    stopped_because = f"reached stop, learning rate {stop:g}, in {steps} steps"
    with unchanged(model, optimizer, loader):
        model.train()
        for rate, (x, y) in zip(rates, _endless(loader), strict=False):
            _set_rates(optimizer, rate, ratios)
            loss = require_mean(loss_fn(model(x.to(device)), y.to(device)))
            if not math.isfinite(loss.item()):
                stopped_because = f"the loss became {loss.item()} at learning rate {rate:.2g}, step {len(losses) + 1}"
                break
            losses.append(loss.item())
            smoothed = smooth(losses, smoothing)
            best = min(smoothed)
            # For a positive loss this is diverge_factor * best; it also holds for losses below 0.
            if smoothed[-1] > best + (diverge_factor - 1) * abs(best):
                stopped_because = f"the loss diverged at learning rate {rate:.2g}, step {len(losses)}"
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    used = rates[: len(losses)]
    suggestions, reason = suggest_learning_rates(used, smoothed)
    if not losses:
        reason = f"No suggestion: {stopped_because}, before any step. Look at the inputs and at the loss function."
    return LRFinderResult(used, tuple(losses), tuple(smoothed), stopped_because, suggestions, reason)


def sweep_rates(start: float, stop: float, steps: int) -> tuple[float, ...]:
    """Rates from start to stop, both exactly, each a constant factor above the one before."""
    if not 0 < start < stop < math.inf:
        raise ValueError(f"start is {start} and stop {stop}; a sweep rises: 0 < start < stop, both finite.")
    if steps < 3:
        raise ValueError(f"steps is {steps}; 3 or more make a curve, 100 a readable one.")
    return tuple(np.geomspace(start, stop, steps).tolist())


def smooth(losses: Sequence[float], smoothing: float) -> list[float]:
    """Exponential average, divided by the weight that it has gathered so far.

    Without that division the average starts at 0 and rises towards the losses, which looks like a fall that
    never was.
    """
    averages, average, weight = [], 0.0, 0.0
    for loss in losses:
        average = smoothing * average + (1 - smoothing) * loss
        weight = smoothing * weight + (1 - smoothing)
        averages.append(average / weight)
    return averages


def _check_settings(smoothing: float, diverge_factor: float) -> None:
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


def _set_rates(optimizer: Optimizer, rate: float, ratios: Sequence[float]) -> None:
    for group, ratio in zip(optimizer.param_groups, ratios, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * ratio)
        else:
            group["lr"] = rate * ratio


def _endless(loader: Batches) -> Iterator[Sequence[Tensor]]:
    """The loader's batches, epoch after epoch."""
    while True:
        batch = None
        for batch in loader:
            yield batch
        if batch is None:
            raise ValueError("the loader gave 0 batches. Look at the split, at batch_size and at drop_last.")
