"""Figures that can be read without seeing colour, or without seeing: a caption, and alt text with the numbers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from .._common.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["OKABE_ITO", "as_png", "show_figure"]


def show_figure(figure: Figure, *, caption: str, alt: str) -> None:
    """Show a matplotlib figure with a caption that states its conclusion.

    Args:
        figure: drawn with axis labels and units; it is closed afterwards.
        caption: the conclusion, in a sentence.
        alt: the figure in words, with its numbers. Kept as display metadata, which nbconvert writes into the page.

    """
    from IPython.display import Markdown, display

    data = {"image/png": as_png(figure), "text/plain": alt}
    display(data, raw=True, metadata={"image/png": {"alt": alt}})
    display(Markdown(f"*{caption}*"))


def as_png(figure: Figure, dpi: int = 110) -> bytes:
    """A figure as a PNG without the name of the software in it; pyplot's own figures are closed."""
    import matplotlib.pyplot as plt

    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    return picture.getvalue()
