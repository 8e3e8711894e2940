"""A schedule before it is used: the rate of every step, as numbers and as a picture."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

import torch
from torch.optim import SGD

from ..._common.palette import OKABE_ITO
from ..._common.plotting import figure_and_axes, legend_above
from ..types import Schedule
from .checks import is_number, require_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = ("-", "--", "-.", ":")


def schedule_rates(schedule: Schedule, total_steps: int, learning_rate: float = 1.0) -> list[float]:
    """The learning rate of each optimizer step of a run, without training.

    A schedule that moves momentum does so on a throwaway optimizer: SGD with momentum 0.9.
    Source: lecture part 3, schedules.

    Args:
        schedule: a function of (optimizer, total_steps) that returns a scheduler, as train takes it.
        total_steps: optimizer steps of the run, 1 or more: epochs times windows of accumulated batches.
        learning_rate: the optimizer's rate, above 0.

    Returns:
        total_steps rates, that of the first step first.

    Raises:
        TypeError, ValueError: an argument is of another type or out of range, or the schedule refuses the run.

    """
    require_whole(total_steps, "total_steps", 1)
    if not is_number(learning_rate):
        raise TypeError(f"learning_rate is {learning_rate!r}; pass a number above 0, such as 0.1.")
    if not 0 < learning_rate < math.inf:
        raise ValueError(f"learning_rate is {learning_rate}; pass a finite number above 0, such as 0.1.")
    optimizer = SGD([torch.zeros((), requires_grad=True)], lr=float(learning_rate), momentum=0.9)
    scheduler = schedule(optimizer, int(total_steps))
    rates = [float(optimizer.param_groups[0]["lr"])]
    for _ in range(int(total_steps) - 1):
        optimizer.step()
        with warnings.catch_warnings():
            # SequentialLR itself steps its schedulers in a way that PyTorch has deprecated.
            warnings.filterwarnings("ignore", "The epoch parameter in", UserWarning)
            scheduler.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates


def plot_schedule(
    schedules: Schedule | Mapping[str, Schedule],
    total_steps: int,
    learning_rate: float = 1.0,
    ax: Axes | None = None,
) -> Figure:
    """Draw the learning rate at every optimizer step of a run, for one schedule or for several.

        plot_schedule({"cosine": warmup_cosine(0.1), "step": step_decay(0.3)}, total_steps=300, learning_rate=0.1)

    Source: lecture part 3, schedules.

    Args:
        schedules: a schedule, or several by the names for the legend.
        total_steps: optimizer steps of the run, 1 or more.
        learning_rate: the optimizer's rate, above 0.
        ax: where; default: a new figure.

    Returns:
        The figure: steps from 0 along the x-axis, the rate along the y-axis.

    Raises:
        TypeError, ValueError: as schedule_rates does; there is no schedule to draw.

    """
    named = schedules if isinstance(schedules, Mapping) else {"": schedules}
    if not named:
        raise ValueError("there is no schedule to draw; pass one, or a dict of them.")
    lines = {name: schedule_rates(schedule, total_steps, learning_rate) for name, schedule in named.items()}
    figure, ax = figure_and_axes(ax)
    for (name, rates), color, dashes in zip(lines.items(), cycle(OKABE_ITO), cycle(_DASHES), strict=False):
        # A rate belongs to a whole step: drawn as stairs, a jump is where it happens.
        ax.step(range(len(rates)), rates, where="post", color=color, linestyle=dashes, label=name)
    ax.set_xlabel("optimizer step")
    ax.set_ylabel("learning rate")
    if any(named):
        legend_above(ax)
    return figure
