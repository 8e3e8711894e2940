"""What a training run leaves behind: a row for each epoch and the best weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..._common.palette import BLUE, GREEN, INK, VERMILION
from ..._common.plotting import figure_and_axes, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data.

    Attributes:
        epoch: counted from 1.
        train_loss: mean over the epoch's examples, each taken before its own step, in train mode.
        val_loss: mean over the validation set after the epoch, in eval mode.
        val_metric: likewise.
        learning_rate: the first parameter group's rate in the epoch's last step.
        steps: optimizer steps since training began, the skipped ones included.
        skipped: how many of them changed no weights, because something was not finite.
        gradient_norms: each layer's gradient norm before clipping, the epoch's mean; empty unless asked for.

    """

    epoch: int
    train_loss: float
    val_loss: float
    val_metric: float
    learning_rate: float
    steps: int
    skipped: int = 0
    gradient_norms: dict[str, float] = field(default_factory=dict)


@dataclass
class History:
    """The rows of a run in order, and the weights of the best epoch.

    Attributes:
        rows: one for each finished epoch.
        stopped: why the run ended before its last epoch; empty when it did not.

    """

    rows: list[Epoch] = field(default_factory=list)
    stopped: str = ""
    _best_state: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def has_best(self) -> bool:
        """Whether there are best weights."""
        return bool(self._best_state)

    @property
    def best_state(self) -> dict[str, Any]:
        """The state_dict of the epoch with the lowest validation loss, copied to the CPU.

        Raises:
            ValueError: there are no best weights, since no epoch had a finite validation loss.

        """
        if not self._best_state:
            raise ValueError(
                f"no best weights: {len(self.rows)} epoch(s) and none with a finite validation loss. Train for one, or "
                "look for NaN in the validation inputs."
            )
        return self._best_state

    @best_state.setter
    def best_state(self, state: dict[str, Any]) -> None:
        self._best_state = state

    @property
    def best(self) -> Epoch:
        """The first epoch with the lowest finite validation loss.

        Raises:
            ValueError: there is none.

        """
        finite = [row for row in self.rows if math.isfinite(row.val_loss)]
        if not finite:
            raise ValueError(
                f"{len(self.rows)} epoch(s) and none with a finite validation loss. Train for one, or look "
                "for NaN in the validation inputs."
            )
        return min(finite, key=lambda row: row.val_loss)

    def as_rows(self) -> list[dict[str, Any]]:
        """The rows as plain dicts, for a table or a run record."""
        return [asdict(row) for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw both losses (left axis) and the validation metric (right axis), the best epoch marked.

        Args:
            ax: where the losses go; default: a new figure.

        Returns:
            The figure.

        Raises:
            ValueError: no epoch has a finite validation loss.

        """
        best = self.best
        from matplotlib.ticker import MaxNLocator

        figure, ax = figure_and_axes(ax)
        epochs = [row.epoch for row in self.rows]
        train_losses, val_losses = [row.train_loss for row in self.rows], [row.val_loss for row in self.rows]
        ax.plot(epochs, train_losses, "o-", color=BLUE, markersize=4, label="training loss")
        ax.plot(epochs, val_losses, "s--", color=VERMILION, markersize=4, label="validation loss")
        best_label = f"best: epoch {best.epoch}, loss {best.val_loss:.3g}"
        ax.axvline(best.epoch, color=INK, linestyle=":", label=best_label)
        # A log scale keeps the end of the run readable; losses that can reach 0 or below have none.
        if min(train_losses + val_losses) > 0:
            ax.set_yscale("log")
            plain_log_ticks(ax.yaxis)
        metric_axis = ax.twinx()
        metrics = [row.val_metric for row in self.rows]
        metric_axis.plot(epochs, metrics, "^-.", color=GREEN, markersize=4, label="validation metric (right)")
        ax.set_xlabel("epoch")
        ax.set_ylabel("loss (mean per example)")
        metric_axis.set_ylabel("validation metric")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles = ax.get_legend_handles_labels()[0] + metric_axis.get_legend_handles_labels()[0]
        # Above the axes, so that it hides no curve.
        ax.legend(handles=handles, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return figure


@contextmanager
def carried_by_exceptions(history: History) -> Iterator[None]:
    """What stops a run, an interrupt included, carries what was finished until then as `.history`."""
    try:
        yield
    except BaseException as error:
        error.history = history  # type: ignore[attr-defined]
        if history.rows:
            error.add_note(
                f"{len(history.rows)} finished epoch(s) are in this exception's history. In a notebook: import sys; "
                "history = sys.last_value.history"
            )
        raise
