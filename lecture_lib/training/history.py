"""What a training run leaves behind: a row for each epoch and the best weights."""

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by the colour-blind.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data.

    epoch: counted from 1
    train_loss: mean over the epoch's examples, each taken before its own step, in train mode
    val_loss, val_metric: means over the validation set after the epoch, in eval mode
    learning_rate: the first parameter group's rate in the epoch's last step
    steps: optimizer steps since training began
    """

    epoch: int
    train_loss: float
    val_loss: float
    val_metric: float
    learning_rate: float
    steps: int


@dataclass
class History:
    """The rows of a run in order, and the weights of the best epoch.

    rows: one for each finished epoch
    best_state: state_dict of the epoch with the lowest validation loss, copied to the CPU; empty before there
    is one
    """

    rows: list[Epoch] = field(default_factory=list)
    best_state: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Epoch:
        """The first epoch with the lowest finite validation loss. ValueError when there is none."""
        finite = [row for row in self.rows if math.isfinite(row.val_loss)]
        if not finite:
            raise ValueError(
                f"{len(self.rows)} epoch(s) and none with a finite validation loss. Train for one, or look "
                "for NaN in the validation inputs."
            )
        return min(finite, key=lambda row: row.val_loss)

    def as_rows(self) -> list[dict[str, float]]:
        """The rows as plain dicts, for a table or a run record."""
        return [asdict(row) for row in self.rows]

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """Draw both losses (left axis) and the validation metric (right axis), the best epoch marked.

        ax: where the losses go; default: a new figure. Raises ValueError for a history without epochs.
        """
        best = self.best
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        epochs = [row.epoch for row in self.rows]
        train_losses, val_losses = [row.train_loss for row in self.rows], [row.val_loss for row in self.rows]
        ax.plot(epochs, train_losses, "o-", color=BLUE, markersize=4, label="training loss")
        ax.plot(epochs, val_losses, "s--", color=VERMILION, markersize=4, label="validation loss")
        best_label = f"best: epoch {best.epoch}, loss {best.val_loss:.3g}"
        ax.axvline(best.epoch, color="0.4", linestyle=":", label=best_label)
        # A log scale keeps the end of the run readable; losses that can reach 0 or below have none.
        if min(train_losses + val_losses) > 0:
            ax.set_yscale("log")
        metric_axis = ax.twinx()
        metrics = [row.val_metric for row in self.rows]
        metric_axis.plot(epochs, metrics, "^-.", color=GREEN, markersize=4, label="validation metric (right)")
        ax.set_xlabel("epoch")
        ax.set_ylabel("loss (mean per example)")
        metric_axis.set_ylabel("validation metric (fraction)")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles = ax.get_legend_handles_labels()[0] + metric_axis.get_legend_handles_labels()[0]
        # Above the axes, so that it hides no curve.
        ax.legend(handles=handles, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        figure = ax.get_figure(root=True)
        assert figure is not None  # axes that were just drawn into belong to a figure
        return figure
