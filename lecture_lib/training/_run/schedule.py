"""The learning-rate schedule: made for the run's number of steps, and stepped after each of them."""

from __future__ import annotations

import inspect
import math
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ..types import Batches, Schedule
from .checks import count_batches

_REMEDY = (
    "Pass a function: schedule=lambda optimizer, total_steps: OneCycleLR(optimizer, max_lr=1e-2, "
    "total_steps=total_steps)"
)


def make_scheduler(
    schedule: Schedule | None, optimizer: Optimizer, train_loader: Batches, epochs: int, *, accumulate: int = 1
) -> LRScheduler | None:
    """The scheduler for a run, or None without a schedule.

    An optimizer step takes `accumulate` batches; the last one of an epoch takes those that are left.

    Raises:
        TypeError: the schedule is not a function of (optimizer, total_steps), made no scheduler or one that cannot be
            stepped after each batch, or the loader does not know its number of batches.

    """
    if schedule is None:
        return None
    _require_function(schedule)
    _forget_rates_before_the_users(optimizer)
    batches = count_batches(train_loader)
    if batches is None:
        raise TypeError("a schedule needs the number of steps, and train_loader has no len(). Give it one.")
    scheduler = schedule(optimizer, epochs * math.ceil(batches / accumulate))
    # By torch's classes it is a scheduler too, so it is asked for first.
    if isinstance(scheduler, ReduceLROnPlateau):
        raise TypeError(
            "schedule made a ReduceLROnPlateau, which waits for a validation loss after each epoch; train steps the "
            f"scheduler after each batch and without one. {_REMEDY}"
        )
    if not isinstance(scheduler, LRScheduler):
        raise TypeError(
            f"schedule returned {type(scheduler).__name__}; train needs the scheduler that it made. Is a `return` "
            "missing?"
        )
    return scheduler


_LEFT: WeakKeyDictionary[Optimizer, list[float]] = WeakKeyDictionary()
"""The rate of each parameter group at the end of the optimizer's last run."""


def remember_rates(optimizer: Optimizer) -> None:
    """A rate that differs from these when the next run begins was set by the user."""
    _LEFT[optimizer] = [float(group["lr"]) for group in optimizer.param_groups]


def _forget_rates_before_the_users(optimizer: Optimizer) -> None:
    """Let the schedule start from a rate that was set since the last run.

    Torch's schedulers start from "initial_lr", which the first of them writes into the group, and not from "lr". That
    brings back the group's own rate after a schedule that has ended at almost 0, and would ignore one that was set.
    """
    for group, left in zip(optimizer.param_groups, _LEFT.get(optimizer, ()), strict=False):
        if float(group["lr"]) != left:
            group.pop("initial_lr", None)


def _require_function(schedule: Any) -> None:
    """A scheduler that is made already, torch's classes and functions of other arguments are refused."""
    name = getattr(schedule, "__name__", type(schedule).__name__)
    if not callable(schedule):
        raise TypeError(f"schedule is a {name}; train makes it itself, for its number of steps. {_REMEDY}")
    if isinstance(schedule, type) and schedule.__module__ == "torch.optim.lr_scheduler":
        # Silent where it would run at all: ExponentialLR would take the number of steps for its factor.
        second = list(inspect.signature(schedule).parameters)[1]
        raise TypeError(
            f"schedule is the class {name}; train calls schedule(optimizer, total_steps), and {name} wants {second} "
            f"there. {_REMEDY}"
        )
    try:
        inspect.signature(schedule).bind(None, 1)
    except TypeError as error:
        raise TypeError(f"schedule {name} cannot be called with (optimizer, total_steps): {error}. {_REMEDY}") from None
    except ValueError:  # a callable written in C has no signature to ask
        return
