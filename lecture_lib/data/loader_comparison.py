"""A table of loaders that differ in workers, pinning and persistence."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._common.palette import BLUE, ORANGE
from .._common.plotting import figure_and_axes, legend_above
from .throughput import Throughput, measure_throughput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LoaderComparison:
    """Settings of the loader, and what was measured with each.

    Attributes:
        rows: (settings, throughput), in the order asked for.

    """

    rows: tuple[tuple[dict[str, Any], Throughput], ...]

    @property
    def best(self) -> tuple[dict[str, Any], Throughput]:
        """The row with most batches a second of loader and step together."""
        return max(self.rows, key=lambda row: row[1].both)

    def __str__(self) -> str:
        lines = ["loader/s   step/s   both/s  waiting  bottleneck    settings"]
        for setting, throughput in self.rows:
            rates = f"{throughput.loader:8.3g} {throughput.step:8.3g} {throughput.both:8.3g} {throughput.waiting:8.0%}"
            lines.append(f"{rates}  {throughput.bottleneck:<12}  {_name(setting)}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw batches a second of both and of the loader alone, a pair of bars for each setting.

        Args:
            ax: where; default: a new figure.

        Returns:
            The figure.

        """
        figure, ax = figure_and_axes(ax, (6.4, 1.4 + 0.6 * len(self.rows)))
        places = range(len(self.rows))
        together, alone = ([getattr(throughput, name) for _, throughput in self.rows] for name in ("both", "loader"))
        ax.barh([place - 0.2 for place in places], together, 0.4, color=BLUE, label="loader and step")
        ax.barh([place + 0.2 for place in places], alone, 0.4, color=ORANGE, hatch="//", label="loader alone")
        ax.set_yticks(places, [_name(setting) for setting, _ in self.rows])
        ax.invert_yaxis()
        ax.set_xlabel("throughput (batches per second)")
        ax.set_ylabel("loader settings")
        legend_above(ax)
        return figure


def compare_loaders(
    make_loader: Callable[..., Any],
    settings: Sequence[Mapping[str, Any]],
    step: Callable[[Any], object],
    *,
    batches: int = 100,
    clock: Callable[[], float] = time.perf_counter,
) -> LoaderComparison:
    """Measure a loader with each of several settings.

    Source: lecture part 2, the DataLoader flags that matter.

    Args:
        make_loader: called with each of the settings as keyword arguments, gives a loader.
        settings: for example [{"num_workers": 0}, {"num_workers": 2, "persistent_workers": True}].
        step: batch -> anything, as for measure_throughput.
        batches: at most this many of each epoch.
        clock: -> seconds.

    Returns:
        The table; print it, or plot it.

    Raises:
        ValueError: there are no settings.

    """
    if not settings:
        raise ValueError('settings are empty; name one or more, for example [{"num_workers": 0}, {"num_workers": 2}].')
    # A loader is let go, and its workers with it, before the next is measured.
    measured = [measure_throughput(make_loader(**setting), step, batches=batches, clock=clock) for setting in settings]
    return LoaderComparison(tuple(zip(map(dict, settings), measured, strict=True)))


def _name(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items()) or "defaults"
