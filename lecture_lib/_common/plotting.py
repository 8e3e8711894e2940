"""Where a picture goes: the caller's axes, or a figure of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

CROWDED = 1000
"""From this ratio of a logarithmic axis's ends on only the powers of ten are labelled: more labels would overlap."""


def figure_and_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 3.6)) -> tuple[Figure, Axes]:
    """The axes with the figure that they belong to; without axes a new figure.

    Args:
        ax: where the caller wants the picture, or None.
        size: of a new figure, width and height in inches.

    """
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=size, layout="constrained")
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes that one can draw into belong to a figure
    return figure, ax


def plain_log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers: 0.2, not 2 × 10⁻¹."""
    from matplotlib.ticker import LogLocator

    def between(value: float, _: float) -> str:
        low, high = axis.get_view_interval()
        return f"{value:g}" if high / low < CROWDED else ""

    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter(between)


def legend_above(ax: Axes) -> None:
    """Put the legend above the axes: inside, it would cover what is drawn."""
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
