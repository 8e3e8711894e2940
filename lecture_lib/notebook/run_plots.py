"""The loss curves of several runs beside each other, one small picture for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .figures import OKABE_ITO, show_figure

if TYPE_CHECKING:
    from ..training.history import History


def show_runs(runs: Mapping[str, History], caption: str) -> None:
    """Show training and validation loss (nats) of each run over its epochs, a panel for each run, by name."""
    import matplotlib.pyplot as plt

    size = (3.0 * len(runs), 2.6)
    figure, axes = plt.subplots(1, len(runs), figsize=size, layout="constrained", squeeze=False)
    ends = []
    for axis, (name, run) in zip(axes[0], runs.items(), strict=True):
        epochs = [row.epoch for row in run.rows]
        train, val = [row.train_loss for row in run.rows], [row.val_loss for row in run.rows]
        axis.plot(epochs, train, "-", color=OKABE_ITO[0], label="training")
        axis.plot(epochs, val, "--", color=OKABE_ITO[1], label="validation")
        # A flat curve is to be seen below the upper edge, not on it.
        axis.set(title=name, xlabel="epoch", ylim=(0, 1.1 * max(train + val)))
        ends.append(f"{name}: training ends at {train[-1]:.1f}, validation at {val[-1]:.1f}")
    axes[0][0].set_ylabel("loss (nats)")
    axes[0][0].legend(fontsize=8)
    show_figure(figure, caption=caption, alt=f"Loss curves of {len(runs)} runs. {'; '.join(ends)}.")
