"""The graph of a result as a picture: a box for each tensor, an arrow for each use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from .._common.palette import INK
from .._common.pictures import image_tag
from . import _svg
from .tensor import Tensor
from .trace import Trace, TraceStep, trace

LARGEST = 60  # boxes; more cannot be read


@dataclass(frozen=True)
class Drawing:
    """A picture of a graph; notebooks show it.

    Attributes:
        svg: the picture.
        alt: the picture in words, with its numbers.

    """

    svg: str
    alt: str

    def save(self, path: str | Path) -> None:
        """Write the picture to a file whose name ends in .svg.

        Raises:
            ValueError: the name ends in something else.

        """
        if Path(path).suffix.lower() != ".svg":
            raise ValueError(f"{path}: a drawing is written as SVG only. Choose a name that ends in .svg.")
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        # JupyterLab gives an SVG no alternative text, so it gets an `img` with one.
        tag = image_tag(self.svg.encode(), "svg+xml", self.alt)
        data = {"text/html": tag, "image/svg+xml": self.svg, "text/plain": self.alt}
        return data, {"image/svg+xml": {"alt": self.alt}}


def draw(result: Tensor, /, gradient: ArrayLike | None = None, **names: Tensor) -> Drawing:
    """Draw the graph of a result from left to right, with each tensor's value and gradient.

    Call it before `backward()`, or after `backward(retain_graph=True)`. No `.grad` changes, and nothing is freed.

    Args:
        result: what the gradients are of.
        gradient: d(loss)/d(result), of the result's shape; may be left out for a single number, then it is 1.
        names: tensors of the graph by the name to show: `draw(loss, w=w, b=b)`.

    Raises:
        ValueError: the graph has more than 60 tensors; or as `trace`.
        RuntimeError: as `trace`.
        TypeError: as `trace`.

    """
    return picture(trace(result, gradient, **names))


def picture(rows: Trace, moment: TraceStep | None = None, *, ink: str = INK) -> Drawing:
    """The picture of a trace, as in `draw`; or of a moment, with what is known then and the active row in bold.

    Boxes keep their places from moment to moment. Text and arrows have the colour `ink`: grey, which can be read on
    white and on black, or 'currentColor', the page's own, where the SVG is a part of the page.

    Raises:
        ValueError: the trace has more than 60 rows.

    """
    if len(rows) > LARGEST:
        raise ValueError(
            f"the graph has {len(rows)} tensors, a drawing at most {LARGEST}. Read it as a table, trace(result), or "
            "draw a smaller part: an intermediate result, fewer steps or fewer layers."
        )
    alt = _svg.alternative_text(rows.rows, moment)
    return Drawing(_svg.render(rows.rows, moment, alt, ink), alt)
