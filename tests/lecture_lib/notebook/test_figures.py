"""What every figure has: an alternative text where it is shown, ink that is read on white and on black, plain ticks."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lecture_lib._common.palette import INK
from lecture_lib._common.plotting import figure_and_axes, plain_log_ticks
from lecture_lib.notebook import plots, show_arrows, show_figure
from lecture_lib.notebook.figures import as_png

WHITE, DARK = (255, 255, 255), (17, 17, 17)  # pages of JupyterLab


class Attributes(HTMLParser):
    """Of the only element of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **options: found.append({"data": data, **options}) if options else None
    )
    return found


def drawn() -> Any:
    figure, axes = figure_and_axes(None)
    axes.plot([1, 2, 3], [0.2, 0.6, 2.5], label="a curve")
    axes.set(xlabel="step", ylabel="loss", title="A title", yscale="log")
    axes.twinx().set_ylabel("on the right")
    axes.legend()
    return figure


def test_a_figure_is_an_image_with_alternative_text_and_a_png_for_other_readers(shown: list[dict[str, Any]]) -> None:
    alt = 'Loss < 0.5 & "flat"'
    show_figure(drawn(), caption="A caption.", alt=alt)
    (output,) = shown
    data = output["data"]
    ((tag, attributes),) = Attributes(data["text/html"]).found
    assert tag == "img"
    assert attributes["alt"] == alt == data["text/plain"] == output["metadata"]["image/png"]["alt"]
    source = attributes["src"] or ""
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == data["image/png"]


def luminance(colour: tuple[int, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """As WCAG 2 defines it."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("page", "least"), [(WHITE, 4.5), (DARK, 4.1)], ids=["light", "dark"])
def test_no_part_of_a_figure_is_lost_on_a_page(page: tuple[int, ...], least: float) -> None:
    assert contrast(tuple(bytes.fromhex(INK[1:])), page) >= least
    pixels = np.asarray(Image.open(io.BytesIO(as_png(drawn()))).convert("RGBA")).reshape(-1, 4)
    assert (pixels[:, 3] == 0).mean() > 0.8, "the background is transparent"
    for colour in np.unique(pixels[pixels[:, 3] > 250], axis=0):
        assert contrast(tuple(map(int, colour[:3])), page) > 2.5, colour


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.3, 2.4, ["0.5", "1", "2"]),
        (0.61, 0.68, ["0.61", "0.62", "0.63", "0.64", "0.65", "0.66", "0.67", "0.68"]),
        (0.008, 3.0, ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]),
        (0.02, 300.0, ["0.1", "1", "10", "100"]),
    ],
)
def test_a_logarithmic_axis_has_plain_numbers(low: float, high: float, expected: list[str]) -> None:
    figure, axes = figure_and_axes(None)
    axes.plot([0, 1], [low, high])
    axes.set(yscale="log", ylim=(low, high))
    plain_log_ticks(axes.yaxis)
    figure.canvas.draw()
    labels = [*axes.yaxis.get_ticklabels(), *axes.yaxis.get_ticklabels(minor=True)]
    inside = {text.get_text() for text in labels if low <= text.get_position()[1] <= high} - {""}
    assert sorted(inside, key=float) == expected


def test_of_two_arrows_in_one_direction_both_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(plots, "show_figure", lambda figure, **_: figures.append(figure))
    show_arrows({"long": (3, 4), "aside": (1, 1), "short": (0.6, 0.8)}, axis_labels=("x", "y"), caption="")
    figure = figures[0]
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3].astype(int)
    x, y = figure.axes[0].transData.transform((0.45, 0.6))  # on the short one, before its head
    across = {tuple(pixels[round(y - 0.6 * step), round(x + 0.8 * step)]) for step in range(-7, 8)}
    blue = [c for c in across if c[2] > c[1] + 20 and c[2] > c[0] + 60]
    green = [c for c in across if c[1] > c[2] + 20 and c[1] > c[0] + 60]
    assert blue, "the long one is seen beside the short one"
    assert green
