"""The figures of the notebooks: each draws plain data and is shown with a caption and with alt text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .._common.palette import INK, OKABE_ITO
from .._common.plotting import legend_above
from .figures import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = ("-", "--", ":", "-.")
# Width and opacity: of two arrows in one direction both are seen, the thin one on the wide one.
_SHAFTS = ((8, 0.65), (4, 0.8), (1.5, 1.0))
_MARKERS = ("o", "x", "s", "^")


def show_images(images: Tensor, labels: Tensor | Sequence[str], caption: str) -> None:
    """Show images [N, 1, H, W] in a row with their labels, [N] whole numbers or N words, as titles."""
    import matplotlib.pyplot as plt

    titles = [str(int(label)) for label in labels] if isinstance(labels, Tensor) else list(labels)
    height = 1.4 + 0.15 * max(title.count("\n") for title in titles)
    figure, axes = plt.subplots(1, len(images), figsize=(len(images), height))
    for axis, image, title in zip(axes, images, titles, strict=True):
        axis.imshow(image[0], cmap="gray_r")
        axis.set_title(title, fontsize=12 if len(title) < 3 else 8)
        axis.axis("off")
    size = " by ".join(str(side) for side in images.shape[2:])
    listed = ", ".join(title.replace("\n", " ") for title in titles)
    show_figure(figure, caption=caption, alt=f"{len(images)} images of {size} pixels, labelled {listed}.")


def show_arrows(arrows: Mapping[str, Sequence[float]], axis_labels: tuple[str, str], caption: str) -> None:
    """Show vectors [2] as arrows from the origin, each with its name; give a longer one before those it could hide."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5, 4))
    for (name, (x, y)), colour, (width, alpha) in zip(arrows.items(), OKABE_ITO, _SHAFTS, strict=False):
        look: dict[str, Any] = {"color": colour, "alpha": alpha}
        head = {"width": width, "headwidth": width + 7, "headlength": width + 7, "linewidth": 0, "shrink": 0}
        axis.annotate("", (x, y), (0, 0), arrowprops={**look, **head})
        axis.plot([], [], linewidth=width, label=f"{name} ({x:g}, {y:g})", **look)
    reach = 1.1 * max(max(vector) for vector in arrows.values())
    axis.set(xlim=(0, reach), ylim=(0, reach), aspect="equal", xlabel=axis_labels[0], ylabel=axis_labels[1])
    legend_above(axis)
    listed = ", ".join(f"{name} to ({x:g}, {y:g})" for name, (x, y) in arrows.items())
    show_figure(figure, caption=caption, alt=f"Arrows from the origin: {listed}.")


def show_splits(x: Tensor, y: Tensor, splits: Mapping[str, Sequence[Tensor]], caption: str, alt: str) -> None:
    """Show points x [N, 2] once for each split: a colour for each class of y [N], a marker for each part."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(splits), figsize=(4 * len(splits), 3), sharey=True, layout="constrained")
    for axis, (title, split) in zip(axes, splits.items(), strict=True):
        for name, part, marker, size in zip(("training", "validation"), split, (".", "x"), (10, 22), strict=True):
            for label, colour in zip(y.unique().tolist(), OKABE_ITO, strict=False):
                rows = part[y[part] == label]
                axis.scatter(*x[rows].T, s=size, marker=marker, c=colour, label=f"class {label}, {name}")
        axis.set(title=title, xlabel="first input")
    axes[0].set_ylabel("second input")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    show_figure(figure, caption=caption, alt=alt)


def show_losses(curves: Mapping[str, Sequence[float]], caption: str, limit: float | None = None) -> None:
    """Show losses (nats) over optimizer steps, one line a curve, and the limit that one of them cannot go under."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 3))
    _draw_losses(axis, curves, limit)
    ends = ", ".join(f"{name} ends at {losses[-1]:.1f}" for name, losses in curves.items())
    beside = "" if limit is None else f" The limit is {limit:.3f}."
    steps = max(len(losses) for losses in curves.values())
    show_figure(figure, caption=caption, alt=f"Loss over {steps} steps: {ends}.{beside}")


def show_gains(gains: Mapping[str, Sequence[float]], caption: str) -> None:
    """Show, for each program, each seed's gain over the constant answer (nats), a mark for each seed."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 0.8 + 0.5 * len(gains)))
    axis.axvline(0, color=INK, linestyle=":", label="the constant answer")
    for row, ((_, values), colour, marker) in enumerate(zip(gains.items(), OKABE_ITO, _MARKERS, strict=False)):
        axis.plot(values, [row] * len(values), marker, color=colour)
    axis.set(yticks=range(len(gains)), yticklabels=list(gains), ylim=(len(gains) - 0.5, -0.5))
    axis.set_xlabel("gain over the constant answer (nats)")
    axis.legend(fontsize=8)
    listed = "; ".join(f"{name} from {min(values):.1f} to {max(values):.1f}" for name, values in gains.items())
    show_figure(figure, caption=caption, alt=f"Gain of each seed, in nats: {listed}.")


def _draw_losses(axis: Axes, curves: Mapping[str, Sequence[float]], limit: float | None) -> None:
    for (name, losses), colour, line in zip(curves.items(), OKABE_ITO, _LINES, strict=False):
        axis.plot(losses, line, color=colour, label=name)
    if limit is not None:
        axis.axhline(limit, color=INK, linestyle=":", label=f"limit, {limit:.3f}")
    axis.set(xlabel="optimizer step", ylabel="loss on the batch (nats)")
    legend_above(axis)
