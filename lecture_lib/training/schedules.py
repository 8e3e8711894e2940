"""Ready-made learning-rate schedules, to be passed to train; each is stepped once after every optimizer step."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR, StepLR

from .types import Schedule


def warmup_cosine(warmup: float, final: float = 0.0) -> Schedule:
    """Rise for the first steps, then fall along half a cosine: schedule=warmup_cosine(0.1).

    With W warm-up steps of N, step t (from 0) takes this multiple of each group's own rate: (t + 1) / (W + 1) before W,
    then final + (1 - final) · (1 + cos(π (t - W) / (N - W))) / 2. It is 1 at t = W, and final would come at t = N.
    Source: Loshchilov and Hutter 2017, arXiv:1608.03983; Goyal et al. 2017, arXiv:1706.02677 (warm-up); nanoGPT.

    Args:
        warmup: steps when an int, 0 or more; a fraction of the run when a float, from 0 to below 1 (rounded up).
        final: where the cosine ends, as a multiple of each group's rate, from 0 to 1.

    Raises:
        TypeError, ValueError: arguments of other types or out of range; when training starts, a warm-up longer than
            the run.

    """
    _require_duration(warmup, "warmup", least=0)
    _require_number(final, "final")
    if not 0 <= final <= 1:
        raise ValueError(f"final is {final}; pass a multiple of the rate from 0 to 1, such as 0.1.")

    def schedule(optimizer: Optimizer, total_steps: int) -> LRScheduler:
        rise = _steps(warmup, total_steps)
        if rise > total_steps:
            raise ValueError(
                f"warmup is {rise} steps and the run has {total_steps}. Train longer, or pass a fraction such as 0.1."
            )

        def factor(step: int) -> float:
            if step < rise:
                return (step + 1) / (rise + 1)
            # A warm-up as long as the run leaves no steps for the cosine, and would divide by 0.
            progress = min(1.0, (step - rise) / max(1, total_steps - rise))
            return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2

        return LambdaLR(optimizer, factor)

    return schedule


def one_cycle(max_lr: float, warmup: float = 0.3) -> Schedule:
    """Rise from max_lr / 25 to max_lr, then fall to almost nothing: schedule=one_cycle(sweep.suggestion).

    PyTorch's OneCycleLR with its default settings. It moves momentum (or Adam's first beta) from 0.95 to 0.85 and back,
    unless the optimizer has none or has it switched off.
    Source: Smith and Topin 2018, arXiv:1708.07120; lecture part 3, one-cycle.

    Args:
        max_lr: the peak for the first parameter group, above 0; the others keep their ratio to it.
        warmup: the rising part, as a fraction of the run between 0 and 1.

    Raises:
        TypeError, ValueError: arguments of other types or out of range; when training starts, a first group whose rate
            is not above 0.

    """
    _require_number(max_lr, "max_lr")
    if not 0 < max_lr < math.inf:
        raise ValueError(f"max_lr is {max_lr}; pass a rate above 0 (find_lr suggests one).")
    _require_number(warmup, "warmup")
    if not 0 < warmup < 1:
        raise ValueError(f"warmup is {warmup}; pass the rising fraction of the run, between 0 and 1, such as 0.3.")

    def schedule(optimizer: Optimizer, total_steps: int) -> LRScheduler:
        # An earlier scheduler may have moved "lr"; it keeps the group's own rate in "initial_lr".
        rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        if not rates[0] > 0:
            raise ValueError(
                f"the first parameter group's rate is {rates[0]}; it must be above 0, because the others are scaled by "
                "it."
            )
        # A rise that ends exactly at the first step makes torch divide by 0; a slightly shorter one starts at the peak.
        rising = warmup * (1 - 1e-9) if warmup * total_steps == 1 else warmup
        return OneCycleLR(
            optimizer,
            max_lr=[max_lr * rate / rates[0] for rate in rates],
            total_steps=total_steps,
            pct_start=rising,
            cycle_momentum=all(_momentum(group) > 0 for group in optimizer.param_groups),
        )

    return schedule


def step_decay(every: float, factor: float = 0.1) -> Schedule:
    """Multiply each group's rate by a factor at regular intervals: schedule=step_decay(10 / 30).

    A fraction of 10 / 30 is every 10 epochs of 30.

    Source: lecture part 3, schedules; PyTorch's StepLR.

    Args:
        every: steps when an int, 1 or more; a fraction of the run when a float, between 0 and 1 (rounded up). An epoch
            has len(train_loader) steps without accumulation.
        factor: above 0, at most 1.

    Raises:
        TypeError, ValueError: arguments of other types or out of range.

    """
    _require_duration(every, "every", least=1)
    _require_number(factor, "factor")
    if not 0 < factor <= 1:
        raise ValueError(f"factor is {factor}; pass a number above 0 and at most 1, such as 0.1.")
    # At least 1: a tiny fraction of a short run rounds to 0 steps.
    return lambda optimizer, total_steps: StepLR(optimizer, max(1, _steps(every, total_steps)), gamma=factor)


def with_warmup(schedule: Schedule, warmup: float) -> Schedule:
    """Put a linear warm-up before any schedule: schedule=with_warmup(step_decay(0.3), 0.1).

    With W warm-up steps of N, step t (from 0) takes (t + 1) / (W + 1) of each group's own rate before W. The schedule
    itself then runs for N - W steps. So no step has the rate 0. Before one-cycle, which sets rates of its own, the
    warm-up leads to its first rate, max_lr / 25. PyTorch's LinearLR and SequentialLR do the work.
    Source: Goyal et al. 2017, arXiv:1706.02677; lecture part 3, schedules.

    Args:
        schedule: a function of (optimizer, total_steps), as train takes it.
        warmup: steps when an int, 0 or more; a fraction of the run when a float, from 0 to below 1 (rounded up).

    Raises:
        TypeError, ValueError: warmup is of another type or out of range; when training starts, a warm-up that leaves
            no step for the schedule.

    """
    _require_duration(warmup, "warmup", least=0)

    def warmed(optimizer: Optimizer, total_steps: int) -> LRScheduler:
        rise = _steps(warmup, total_steps)
        if rise >= total_steps:
            raise ValueError(
                f"warmup is {rise} steps and the run has {total_steps}. Train longer, or pass a fraction such as 0.1."
            )
        if rise == 0:
            return schedule(optimizer, total_steps)
        main = schedule(optimizer, total_steps - rise)
        linear = LinearLR(optimizer, start_factor=1 / (rise + 1), total_iters=rise)
        return SequentialLR(optimizer, [linear, main], milestones=[rise])

    return warmed


def _steps(duration: float, total_steps: int) -> int:
    """A duration in optimizer steps."""
    if isinstance(duration, Integral):
        return int(duration)
    # Rounded first: 0.07 · 100 is 7.000000000000001.
    return math.ceil(round(duration * total_steps, 6))


def _momentum(group: dict[str, Any]) -> float:
    """What one-cycle would move; SGD has the setting also where it is 0, and moving it would switch it on."""
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))


def _require_duration(value: float, name: str, least: int) -> None:
    _require_number(value, name)
    steps = isinstance(value, Integral) and value >= least
    fraction = 0 < value < 1 or value == least == 0
    if not steps and not fraction:
        raise ValueError(
            f"{name} is {value}; pass a whole number of steps, {least} or more, or a fraction of the run below 1, such "
            "as 0.1."
        )


def _require_number(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} is of type {type(value).__name__}; pass a number. Call the factory when you pass it to train: "
            "schedule=warmup_cosine(0.1)."
        )
