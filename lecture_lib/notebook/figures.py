"""Figures that can be read without seeing colour, or without seeing: a caption, and alt text with the numbers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ..palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["OKABE_ITO", "show_figure"]


def show_figure(figure: Figure, *, caption: str, alt: str) -> None:
    """Show a matplotlib figure with a caption that states its conclusion.

    Args:
        figure: drawn with axis labels and units; it is closed afterwards.
        caption: the conclusion, in a sentence.
        alt: the figure in words, with its numbers. Kept as display metadata, which nbconvert writes into the page.

    """
    import matplotlib.pyplot as plt
    from IPython.display import Markdown, display

    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    data = {"image/png": picture.getvalue(), "text/plain": alt}
    display(data, raw=True, metadata={"image/png": {"alt": alt}})
    display(Markdown(f"*{caption}*"))
