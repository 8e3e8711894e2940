"""The finder's curve with a choice to be dragged, or moved by the arrow keys; without widgets, the curve alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common.palette import INK
from .._common.pictures import image_tag
from .._common.plotting import legend_above
from ..training._run.lr_suggestions import trend
from .figures import as_png, display_caption, show_figure
from .widgets import display_widget, widget_data

if TYPE_CHECKING:
    from ..training import LRFinderResult


def choose_rate_by_hand(sweep: LRFinderResult) -> None:
    """Show a sweep's curve; in a running notebook with a line to be moved.

    Args:
        sweep: from `find_lr`.

    """
    figure = sweep.plot()
    figure.set_size_inches(6, 3.4)
    rate = sweep.suggestion
    suggestion = "No rate can be read from this sweep" if rate is None else f"The library would take {rate:.1e}"
    lowest = "" if rate is None else f" The trend is lowest at {sweep.lowest:.1e}."
    alt = (
        f"Loss over learning rates from {sweep.learning_rates[0]:.1e} to {sweep.learning_rates[-1]:.1e}, "
        f"{len(sweep.losses)} steps. {suggestion}.{lowest}"
    )
    caption = f"{suggestion}; it stopped because: {sweep.stopped_because}."
    if widget := widget_data(lambda: rate_widget(sweep)):
        text = "(In a running notebook: the curve with a line to be moved.)"
        display_widget(widget, text, "The curve without a choice", image_tag(as_png(figure), "png", alt), alt)
        display_caption(caption)
    else:
        show_figure(figure, caption=caption, alt=alt)


def rate_widget(sweep: LRFinderResult) -> Any:
    """A slider over the sweep's rates, the curve with the chosen rate, and what the choice means.

    Returns:
        The widget, or None where the sweep has too few steps to choose from.

    """
    import ipywidgets

    rates = sweep.learning_rates
    if len(rates) < 3:
        return None
    # Not continuous: the kernel draws each picture, and requests would queue up while the slider moves.
    slider = ipywidgets.FloatLogSlider(
        value=rates[len(rates) // 2],  # not the suggestion, which would be the answer
        min=math.log10(rates[0]),
        max=math.log10(rates[-1]),
        step=0.05,
        description="rate",
        readout_format=".1e",
        continuous_update=False,
        layout=ipywidgets.Layout(width="90%"),
    )
    picture, words = ipywidgets.HTML(), ipywidgets.Label()

    def moved(_: object = None) -> None:
        words.value = describe_choice(sweep, slider.value)
        alt = f"The curve with a line at {words.value}"
        picture.value = image_tag(_picture(sweep, slider.value), "png", alt)

    slider.observe(moved, names="value")
    moved()
    return ipywidgets.VBox([slider, words, picture])


def describe_choice(sweep: LRFinderResult, rate: float) -> str:
    """What a rate means on a finder's curve, in a sentence.

    Args:
        sweep: from `find_lr`, with at least one loss.
        rate: the choice.

    Returns:
        How far the trend of the loss has fallen there, and how far the rate is from that of the lowest point.

    """
    rates, smooth = np.array(sweep.learning_rates), trend(sweep.learning_rates, sweep.losses)
    fall = smooth[0] - smooth.min()
    here = smooth[np.abs(np.log(rates / rate)).argmin()]
    share = (
        f"{max(0.0, (smooth[0] - here) / fall):.0%} of the fall has happened" if fall > 0 else "the loss never falls"
    )
    times = (sweep.lowest or rate) / rate
    where = f"{times:.1f} times below" if times >= 1 else f"{1 / times:.1f} times above"
    return f"{rate:.1e}: {share}; {where} the rate of the lowest point."


def _picture(sweep: LRFinderResult, rate: float) -> bytes:
    """The curve with a line at a rate, as a PNG."""
    figure = sweep.plot()
    figure.set_size_inches(6, 4)
    (axes,) = figure.axes
    axes.axvline(rate, color=INK, linestyle=(0, (4, 1.5)), linewidth=3, label=f"your choice, {rate:.1e}")
    legend_above(axes)
    return as_png(figure)
