"""Figures that can be read without seeing colour, or without seeing, on a light page and on a dark one."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from .._common.palette import INK, OKABE_ITO
from .._common.pictures import image_tag

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["OKABE_ITO", "as_png", "show_figure"]


def show_figure(figure: Figure, *, caption: str, alt: str) -> None:
    """Show a matplotlib figure with a caption that states its conclusion.

    Args:
        figure: drawn with axis labels and units; it is closed afterwards.
        caption: the conclusion, in a sentence.
        alt: the figure in words, with its numbers.

    """
    from IPython.display import display

    png = as_png(figure)
    # JupyterLab gives a PNG no alternative text, whatever its metadata say, so it gets an `img` with one. LaTeX and
    # readers of the file take the PNG.
    data = {"text/html": image_tag(png, "png", alt), "image/png": png, "text/plain": alt}
    display(data, raw=True, metadata={"image/png": {"alt": alt}})
    display_caption(caption)


def display_caption(caption: str) -> None:
    """Show a caption below what was displayed last."""
    from IPython.display import Markdown, display

    display(Markdown(f"*{caption}*"))


def as_png(figure: Figure, dpi: int = 110) -> bytes:
    """A figure as a PNG for light and dark pages, without the name of the software in it; it is closed afterwards.

    It has no background, and what was black is grey. A palette of 256 colours makes it a quarter as large.
    """
    import matplotlib.pyplot as plt
    from PIL import Image

    _replace_black(figure)
    drawn, picture = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, bbox_inches="tight", transparent=True)
    plt.close(figure)
    # FASTOCTREE is Pillow's only method that keeps the transparency of soft edges.
    Image.open(drawn).quantize(256, Image.Quantize.FASTOCTREE).save(picture, "png", optimize=True)
    return picture.getvalue()


def _replace_black(figure: Figure) -> None:
    """Draw in grey what matplotlib draws in black on white: spines, ticks, text, the frames of legends."""
    from matplotlib.colors import same_color
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    for axes in figure.axes:
        axes.tick_params(which="both", color=INK, labelcolor=INK)
        axes.spines[:].set_color(INK)
    for text in figure.findobj(Text):
        if isinstance(text, Text) and same_color(text.get_color(), "black"):
            text.set_color(INK)
    for legend in figure.findobj(Legend):
        if isinstance(legend, Legend):
            legend.get_frame().set(facecolor="none", edgecolor=INK)
