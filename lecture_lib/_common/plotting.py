"""Where a picture goes: the caller's axes, or a figure of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def legend_above(ax: Axes) -> None:
    """Put the legend above the axes: inside, it would cover what is drawn."""
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
