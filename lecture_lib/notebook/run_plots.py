"""Training runs side by side, each with its two losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._common.palette import BLUE, VERMILION
from .._common.plotting import plain_log_ticks
from .figures import show_figure

if TYPE_CHECKING:
    from ..training import History


def show_runs(runs: Mapping[str, History], caption: str) -> None:
    """Show training and validation loss over the epochs of each run, one panel a run, on one logarithmic axis."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(runs), figsize=(3 * len(runs), 2.8), sharey=True, squeeze=False)
    for axis, (name, history) in zip(axes[0], runs.items(), strict=True):
        epochs = [row.epoch for row in history.rows]
        axis.plot(epochs, [row.train_loss for row in history.rows], "-", color=BLUE, label="training")
        axis.plot(epochs, [row.val_loss for row in history.rows], "--", color=VERMILION, label="validation")
        axis.set(title=name, xlabel="epoch", yscale="log")
    axes[0][0].set_ylabel("loss (nats)")
    plain_log_ticks(axes[0][0].yaxis)
    axes[0][-1].legend(fontsize=8)
    ends = [
        f"{name}: training ends at {history.rows[-1].train_loss:.1f}, validation at {history.rows[-1].val_loss:.1f}"
        for name, history in runs.items()
    ]
    show_figure(figure, caption=caption, alt=f"Losses over the epochs. {'; '.join(ends)}.")
