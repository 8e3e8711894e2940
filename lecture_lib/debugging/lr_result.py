"""What the learning-rate finder found, and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..palette import BLUE, SKY_BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LRFinderResult:
    """The curve of a sweep and how to read it.

    Attributes:
        learning_rates: the rate of each recorded step, [N].
        losses: the batch's loss before that step was taken, [N].
        smoothed: bias-corrected exponential average of the losses, [N].
        stopped_because: why the sweep ended.
        suggestions: rate by rule ('steepest', 'minimum_over_10'); empty when the curve never falls.
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
        """The 'minimum_over_10' rate, or None when the curve never falls.

        It is the lecture's rule of thumb, meant as max_lr for one-cycle training. Smoothing delays the curve
        by up to smoothing / (1 - smoothing) steps, 9 by default: 0.64 of a decade in the default sweep, by
        which both rules read too large a rate. One decade below the minimum absorbs that; 'steepest' has no
        such margin. On the lecture's unsmoothed table (losses 3.2, 2.5, 1.1, 0.9, 2.8 at 1e-4 to 1) this
        rule gives 1e-2, and 'steepest' 1e-3.
        """
        return self.suggestions.get("minimum_over_10")

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the raw (faint) and smoothed loss over the rate, the suggestion marked.

        Args:
            ax: where; default: a new figure.

        Returns:
            The figure.

        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        rates = self.learning_rates
        ax.plot(rates, self.losses, color=SKY_BLUE, alpha=0.5, linewidth=1, label="loss of each batch")
        ax.plot(rates, self.smoothed, color=BLUE, linewidth=2, label="smoothed loss")
        if self.suggestion is None:
            ax.text(0.5, 0.95, "no suggestion", transform=ax.transAxes, ha="center", va="top")
        else:
            label = f"suggestion {self.suggestion:.1e}"
            ax.axvline(self.suggestion, color=VERMILION, linestyle="--", label=label)
        if self.smoothed:
            # One wild batch, drawn in full, would flatten the curve that is to be read.
            ax.set_ylim(top=1.1 * max(self.smoothed) - 0.1 * min(self.smoothed))
        ax.set_xscale("log")
        ax.set_xlabel("learning rate (log scale)")
        ax.set_ylabel("training loss (mean per example)")
        # Above the axes: inside, it covers the flat start of the curve.
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        figure = ax.get_figure(root=True)
        assert figure is not None  # axes that were just drawn into belong to a figure
        return figure
