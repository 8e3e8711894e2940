"""One picture for each rung, drawn from the numbers that it showed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..._common.palette import BLUE, GREEN, INK, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = dict[str, Any]
FLATTEST = 0.2  # the least range of the loss axis, as a share of its values


def data(ax: Axes, numbers: Numbers) -> None:
    """How the classes, or the targets that are numbers, are shared out in training and validation."""
    if "training targets, deciles" in numbers:
        for name, style, colour in (("training", "o-", BLUE), ("validation", "s--", VERMILION)):
            values = numbers.get(f"{name} targets, deciles", [])
            ax.plot(range(0, 10 * len(values), 10), values, style, color=colour, label=name)
        ax.set(xlabel="% of the examples", ylabel="target at most")
        ax.legend(frameon=False)
        return
    for shift, name, colour in ((-0.2, "training", BLUE), (0.2, "validation", VERMILION)):
        counts: dict[int, int] = numbers.get(f"{name} classes", {})
        total = max(sum(counts.values()), 1)
        shares = [count / total for count in counts.values()]
        ax.bar([label + shift for label in counts], shares, 0.4, color=colour, label=name)
    ax.set(xlabel="class", ylabel="share of the examples")
    ax.legend(frameon=False)


def baselines(ax: Axes, numbers: Numbers) -> None:
    """The first loss beside that of the best constant answer."""
    first, constant = numbers["first loss"], numbers["loss of the best constant answer"]
    _bars(ax, [("untrained model", first), ("best constant answer", constant)])


def one_batch(ax: Axes, numbers: Numbers) -> None:
    """How far the loss of one batch came on its way to the attainable loss."""
    _bars(ax, [("start", numbers["start"]), ("reached", numbers["reached"]), ("attainable", numbers["attainable"])])


def small_subset(ax: Axes, numbers: Numbers) -> None:
    """The loss that each seed reached on the subset."""
    reached: Sequence[float] = numbers["reached, by seed"]
    _bars(ax, [("best constant answer", numbers["constant"]), *((f"seed {n}", loss) for n, loss in enumerate(reached))])


def rates(ax: Axes, numbers: Numbers) -> None:
    """The finder's sweep, the rate that is used and the one that it suggests."""
    ax.plot(numbers["rates"], numbers["losses"], color=BLUE, label="loss of a batch")
    for rate in numbers["used"]:
        ax.axvline(rate, color=VERMILION, linestyle="--", label="used")
    if numbers["suggested"] is not None:
        ax.axvline(numbers["suggested"], color=GREEN, label="suggested")
    top = 2 * max(numbers["losses"][: len(numbers["losses"]) // 4])  # a diverging end would hide the rest
    ax.set(xscale="log", xlabel="learning rate", ylabel="loss", ylim=(0, top))
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ax.legend(handles.values(), handles.keys(), frameon=False)


def run(ax: Axes, numbers: Numbers) -> None:
    """Training and validation loss, epoch by epoch."""
    from matplotlib.ticker import MaxNLocator

    for name, style, colour in (("training", "o-", BLUE), ("validation", "s--", VERMILION)):
        losses = numbers[f"{name} loss"]
        ax.plot(range(1, len(losses) + 1), losses, style, color=colour, label=name)
    low, high = ax.get_ylim()
    least = FLATTEST * max(abs(low), abs(high))
    if high - low < least:  # a loss that hardly moves looks flat, not like a fall over the whole axis
        ax.set_ylim((low + high - least) / 2, (low + high + least) / 2)
    ax.set(xlabel="epoch", ylabel="loss, in evaluation mode")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False)


def errors(ax: Axes, numbers: Numbers) -> None:
    """Accuracy beside confidence, which means what it says on the line; or the errors by their size."""
    if "absolute errors, deciles" in numbers:
        values = numbers["absolute errors, deciles"]
        ax.plot(range(0, 10 * len(values), 10), values, "o-", color=BLUE)
        ax.set(xlabel="% of the examples", ylabel="absolute error at most")
        return
    confidence = numbers["confidence"]
    ax.plot([0, 1], [0, 1], color=INK, linestyle=":")
    ax.plot(confidence, numbers["accuracy"], "o-", color=BLUE)
    ax.set(xlabel="mean confidence of a fifth of the examples", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))


def _bars(ax: Axes, rows: list[tuple[str, float]]) -> None:
    finite = [(name, value) for name, value in rows if math.isfinite(value)]
    bars = ax.barh([name for name, _ in finite], [value for _, value in finite], color=BLUE)
    ax.bar_label(bars, fmt="%.3g", padding=3)
    ax.invert_yaxis()
    ax.margins(x=0.2)
    ax.set(xlabel="loss")


PLOTS: dict[int, Callable[[Axes, Numbers], None]] = {
    1: data,
    2: baselines,
    3: one_batch,
    4: small_subset,
    5: rates,
    6: run,
    7: errors,
}
