"""Sorting mistakes into buckets by hand: with buttons or keys, or on paper beside a grid of pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .._common.pictures import image_tag
from .figures import show_figure
from .widgets import has_front_end

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BACK = "0"
COLUMNS = 5  # more could not be read on a narrow page


@dataclass
class Sorting:
    """Which bucket each mistake was put into.

    Attributes:
        buckets: their names, at most nine: each has a key, from 1 on.
        labels: a bucket's name for each mistake, or None.
        position: of the mistake that is shown; `len(labels)` when all have been.

    """

    buckets: tuple[str, ...]
    labels: list[str | None]
    position: int = 0

    def press(self, key: str) -> bool:
        """Put the shown mistake into the bucket of a key and go on, or go back with 0; False for other keys."""
        if key == BACK:
            self.position = max(0, self.position - 1)
            return True
        if not (key.isascii() and key.isdigit()) or not 1 <= int(key) <= len(self.buckets):
            return False
        if self.position < len(self.labels):
            self.labels[self.position] = self.buckets[int(key) - 1]
            self.position += 1
        return True

    def counts(self) -> dict[str, int]:
        """How many mistakes each bucket holds, the fullest first, equal ones by name."""
        counts = {name: self.labels.count(name) for name in self.buckets}
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def state(self) -> str:
        """Where one is, and the counts, in a line."""
        done = sum(label is not None for label in self.labels)
        count = len(self.labels)
        where = f"all {count} seen" if self.position == count else f"mistake {self.position + 1} of {count}"
        held = ", ".join(f"{name} {count}" for name, count in self.counts().items())
        return f"{where}, {done} sorted: {held}"


@dataclass
class Labeller:
    """The widget: a picture, a button and a key for each bucket, the counts. `sorting.labels` is the result."""

    images: Tensor
    titles: Sequence[str]
    sorting: Sorting
    box: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the widget; the field takes the keys, so that no mouse is needed."""
        import ipywidgets as widgets

        self.picture, self.title, self.state = widgets.HTML(), widgets.Label(), widgets.Label()
        self.keys = widgets.Text(
            description="key", placeholder="type a number", tooltip="1 to 9: a bucket, 0: back", continuous_update=True
        )
        self.keys.observe(self._typed, names="value")
        self.buttons = [self._button(str(number), name) for number, name in enumerate(self.sorting.buckets, 1)]
        self.buttons.append(self._button(BACK, "back"))
        row = widgets.HBox(self.buttons, layout={"flex_flow": "row wrap"})
        rows = [self.title, self.picture, row, self.keys, self.state]
        self.box = widgets.VBox(rows)
        self._show()

    def _button(self, key: str, name: str) -> Any:
        import ipywidgets as widgets

        # As wide as its text, which a button of the usual width would cut off.
        button = widgets.Button(description=f"{key} {name}", tooltip=f"key {key}", layout={"width": "auto"})
        button.on_click(lambda _: self._press(key))
        return button

    def _typed(self, change: dict[str, Any]) -> None:
        # The field keeps what was typed: emptied from here, it would lose or repeat the keys of a quick typist.
        if not change["old"].startswith(change["new"]):
            for key in change["new"].removeprefix(change["old"]):
                self._press(key)

    def _press(self, key: str) -> None:
        if self.sorting.press(key):
            self._show()

    def _show(self) -> None:
        self.state.value = self.sorting.state()
        if self.sorting.position < len(self.images):
            self.title.value = str(self.titles[self.sorting.position])
            alt = f"mistake {self.sorting.position + 1}: {self.title.value}"
            self.picture.value = image_tag(
                _png(self.images[self.sorting.position]), "png", alt, "width: 240px; image-rendering: pixelated"
            )


def label_mistakes(
    images: Tensor, titles: Sequence[str], buckets: Sequence[str], *, interactive: bool | None = None
) -> Sorting:
    """Look at mistakes, and sort them into buckets by hand.

    Args:
        images: of the mistakes, [N, 1, H, W], from 0 (drawn white) to 1 (black).
        titles: a text for each, such as the label and the prediction.
        buckets: one to nine names.
        interactive: show one mistake after the other, with buttons and keys; else a grid of all, for pen and paper.
            Default: where a reader can press buttons. Without ipywidgets there is a grid in any case.

    Returns:
        The sorting; its `labels` and `counts()` follow what is pressed.

    Raises:
        ValueError: no images, lengths that differ, or no bucket, more than nine or one twice.

    """
    if not len(images) or len(images) != len(titles):
        raise ValueError(f"{len(images)} images and {len(titles)} titles; pass one title for each of 1 or more images.")
    if not 1 <= len(set(buckets)) == len(buckets) <= 9:
        raise ValueError(f"buckets are {list(buckets)}; name one to nine, each once: each has a key.")
    sorting = Sorting(tuple(buckets), [None] * len(images))
    if has_front_end() if interactive is None else interactive:
        try:
            from IPython.display import display

            display(Labeller(images, titles, sorting).box)
            return sorting
        except ImportError:
            print("The buttons need ipywidgets (pip install ipywidgets). Here are all mistakes at once.")
    caption = f"{len(images)} mistakes to sort into: {', '.join(buckets)}."
    listed = "; ".join(f"{number} {title}" for number, title in enumerate(titles, 1))
    show_figure(_grid(images, titles), caption=caption, alt=f"A grid of {len(images)} mistakes: {listed}.")
    return sorting


def _grid(images: Tensor, titles: Sequence[str]) -> Figure:
    import matplotlib.pyplot as plt

    columns = min(COLUMNS, len(images))
    rows = -(-len(images) // columns)
    size = (1.5 * columns, 1.8 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    for number, (axis, image, title) in enumerate(zip(axes.flat, images, titles, strict=False), 1):
        axis.imshow(image[0].numpy(), cmap="gray_r", **_contrast(image))
        axis.set_title(f"{number} {title}", fontsize=8)
    return figure


def _png(image: Tensor) -> bytes:
    import matplotlib.image

    file = io.BytesIO()
    matplotlib.image.imsave(file, image[0].numpy(), cmap="gray_r", format="png", **_contrast(image))
    return file.getvalue()


def _contrast(image: Tensor) -> dict[str, Any]:
    """The darkest and the brightest value of an image as black and white: a faint background is visible."""
    low, high = float(image.min()), float(image.max())
    return {"vmin": low, "vmax": high} if high > low else {"vmin": 0.0, "vmax": 1.0}
