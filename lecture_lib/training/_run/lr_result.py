"""What the learning-rate finder found, and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._common.palette import BLUE, GREEN, PURPLE, SKY_BLUE, VERMILION
from ..._common.plotting import figure_and_axes, legend_above
from .lr_suggestions import DEFAULT, bottom_of, trend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In the order of the suggestions; the default is the first.
MARKS = ((VERMILION, "-"), (PURPLE, "--"), (GREEN, ":"))
IN_WORDS = {
    "valley_floor": "a third across the bottom",
    "minimum_over_10": "a tenth of the lowest point's rate",
    "steepest": "steepest fall",
}


@dataclass(frozen=True)
class LRFinderResult:
    """The curve of a sweep and how to read it.

    Attributes:
        learning_rates: the rate of each recorded step, [N].
        losses: the batch's loss before that step was taken, [N].
        smoothed: bias-corrected running average of the losses, by which a divergence is judged, [N].
        stopped_because: why the sweep ended.
        suggestions: rate by rule ('valley_floor', 'minimum_over_10', 'steepest'); empty when the curve never falls.
        reason: what the suggestions rest on, or why there is none and what to change.

    """

    learning_rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    stopped_because: str
    suggestions: dict[str, float]
    reason: str

    @property
    def suggestion(self) -> float | None:
        """The 'valley_floor' rate, or None when the curve never falls; meant as max_lr for one-cycle training.

        On the lecture's table (losses 3.2, 2.5, 1.1, 0.9, 2.8 at 1e-4 to 1) it is 2.0e-2, where 'minimum_over_10', the
        lecture's rule of thumb, gives 1e-2 and 'steepest' 1e-3.
        """
        return self.suggestions.get(DEFAULT)

    @property
    def lowest(self) -> float | None:
        """The rate at which the trend of the losses is lowest, or None for a sweep without losses.

        Not the rate of the lowest single loss, which chance chooses among the batches of the valley's bottom.
        """
        rates = self.learning_rates
        return rates[int(np.argmin(trend(rates, self.losses)))] if self.losses else None

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the loss of each batch (faint), its trend over the rate, and every suggestion, the default boldly.

        Args:
            ax: where; default: a new figure.

        Returns:
            The figure.

        """
        figure, ax = figure_and_axes(ax)
        rates = self.learning_rates
        ax.plot(rates, self.losses, color=SKY_BLUE, alpha=0.5, linewidth=1, label="loss of each batch")
        if self.losses:
            smooth = trend(rates, self.losses)
            ax.plot(rates, smooth, color=BLUE, linewidth=2, label="trend (smoothed loss)")
            # One wild batch, drawn in full, would flatten the curve that is to be read.
            top = 1.1 * max(self.smoothed) - 0.1 * float(min(smooth))
            visible = [loss for loss in self.losses if loss <= top]
            ax.set_ylim(max(0.0, min(visible) - 0.1 * top) if min(visible) >= 0 else None, top)
        if self.suggestion is None:
            ax.text(0.5, 0.95, "no suggestion", transform=ax.transAxes, ha="center", va="top")
        else:
            left, right = bottom_of(np.array(rates), np.asarray(smooth))
            ax.axvspan(10**left, 10**right, color=SKY_BLUE, alpha=0.15, label="bottom of the valley")
        for (name, rate), (color, dashes) in zip(self.suggestions.items(), MARKS, strict=False):
            default = name == DEFAULT
            label = f"{IN_WORDS[name]}, {rate:.1e}" + (" (suggestion)" if default else "")
            ax.axvline(rate, color=color, linestyle=dashes, linewidth=2.5 if default else 1.2, label=label)
        ax.set_xscale("log")
        ax.set_xlabel("learning rate (log scale)")
        ax.set_ylabel("training loss")
        legend_above(ax)
        return figure
