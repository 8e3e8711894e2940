"""A trace as SVG: boxes with a tensor's numbers, arrows between them, a legend; and the same in words."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from .._common.palette import BLUE, GREEN, INK, ORANGE
from ._layout import Box, Point, arrange
from ._rows import Kind, TapeRow, listed, written
from .trace import TraceStep

_CHARACTER, _LINE = 7.3, 17.0  # pixels: the width of a character at 12 px in a monospaced font, a line's height
_PADDING, _MARGIN, _LEGEND = 12.0, 20.0, 34.0
# Colour, outline and corner radius: any one of them tells the kinds apart.
_LOOKS: dict[Kind, tuple[str, str, float]] = {
    "leaf": (BLUE, "", 18),
    "constant": (ORANGE, "5 4", 6),
    "result": (GREEN, "", 0),
}
_LEGENDS: dict[Kind, str] = {
    "leaf": "leaf: gets a gradient",
    "constant": "constant: needs none",
    "result": "result of an operation",
}


def alternative_text(rows: Sequence[TapeRow], moment: TraceStep | None) -> str:
    """The picture in words, with its numbers."""
    size = f"{len(rows)} tensor{'s' * (len(rows) > 1)}"
    sentences = [f"Computation graph of {rows[-1].name} with {size}, from left to right."]
    for row in rows:
        kind = f"{row.kind.capitalize()} " if row.kind != "result" else ""
        sentences.append(f"{kind}{_title(row)}: {', '.join(_numbers(row, moment)) or 'not computed yet'}.")
    return " ".join(sentences)


def render(rows: Sequence[TapeRow], moment: TraceStep | None, alt: str, ink: str = INK) -> str:
    """The picture; boxes have room for the complete text, whatever is known then. `ink`: of text and arrows."""
    place = {row.name: number for number, row in enumerate(rows)}
    complete = [_lines(row) for row in rows]
    sizes = [(max(map(len, text)) * _CHARACTER + 2 * _PADDING, len(text) * _LINE + _PADDING) for text in complete]
    layout = arrange([[place[name] for name in row.inputs] for row in rows], sizes)
    kinds = [kind for kind in _LOOKS if any(row.kind == kind for row in rows)]
    legend, legend_width = _legend(kinds, layout.height + 24)
    width = max(layout.width, legend_width) + 2 * _MARGIN
    height = layout.height + _LEGEND + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:g} {-_MARGIN:g} {width:.0f} {height:.0f}" color="{ink}" font-size="12" '
        # On a narrow page it shrinks, as long as its text can be read.
        f'style="max-width: 100%; min-width: {0.8 * width:.0f}px; height: auto" '
        "font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">",
        f"<title>Computation graph of {escape(rows[-1].name)}</title>",
        f"<desc>{escape(alt)}</desc>",
    ]
    for row, edges in zip(rows, layout.edges, strict=True):
        for name, share, points in zip(row.inputs, row.shares, edges, strict=True):
            passed = f"{row.name} passes nothing to the constant {name}"
            if share is not None:
                passed = f"{row.name} passes {written(share)} to {name}"
            parts.append(_edge(points, passed))
    for row, box in zip(rows, layout.boxes, strict=True):
        active = moment is not None and moment.active == row.name
        parts.append(_node(row, _lines(row, moment), box, width=5 if active else 2))
    return "\n".join([*parts, *legend, "</svg>"])


def _title(row: TapeRow) -> str:
    return f"{row.name} = {row.operation}({listed(row.inputs)})" if row.operation else row.name


def _numbers(row: TapeRow, moment: TraceStep | None = None) -> list[str]:
    """The value and the gradient, as far as they are known at the moment; both at the end of the walk."""
    if moment is None:
        arrays = {"value": row.value, "gradient": row.gradient}
    else:
        arrays = {"value": moment.values.get(row.name), "gradient": moment.gradients.get(row.name)}
    return [f"{name} {written(array)}" for name, array in arrays.items() if array is not None]


def _lines(row: TapeRow, moment: TraceStep | None = None) -> list[str]:
    """The text of a box: each row of a matrix on a line of its own."""
    numbers = _numbers(row, moment)
    return [_title(row), *(line for text in numbers for line in text.replace("], [", "],\n[").split("\n"))]


def _outline(kind: Kind, box: Box, width: int = 2) -> str:
    colour, dashes, radius = _LOOKS[kind]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{min(radius, box.height / 2):g}" fill="{colour}" fill-opacity="0.1" stroke="{colour}" '
        f'stroke-width="{width}"'
        f"{dashed}/>"
    )


def _node(row: TapeRow, lines: list[str], box: Box, width: int) -> str:
    middle = box.left + box.width / 2
    texts = [
        f'<text x="{middle:.1f}" y="{box.top + _PADDING / 2 + _LINE * (number + 0.75):.1f}" text-anchor="middle" '
        f'fill="currentColor" font-weight="{"normal" if number else "bold"}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join([f'<g class="node" data-row="{row.number}">', _outline(row.kind, box, width), *texts, "</g>"])


def _edge(points: list[Point], passed: str) -> str:
    """Curves to the left side of each layer and level lines through it; then an arrow head."""
    (x, y), *corners = points
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (right, to) in enumerate(corners, start=1):
        end = right - 7 if number == len(corners) else right  # the head covers the rest
        half = (x + end) / 2
        curve = f"C{half:.1f} {y:.1f} {half:.1f} {to:.1f} {end:.1f} {to:.1f}"
        path.append(curve if number % 2 else f"L{end:.1f} {to:.1f}")
        x, y = right, to
    return (
        f'<g class="edge"><title>{escape(passed)}</title>'
        f'<path d="{" ".join(path)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f'<path d="M{x - 1:.1f} {y:.1f} l-8 -4 v8 z" fill="currentColor"/></g>'
    )


def _legend(kinds: list[Kind], top: float) -> tuple[list[str], float]:
    """A sample of each kind with what it means, and the width of it all."""
    parts, left = [], 0.0
    for kind in kinds:
        parts.append(_outline(kind, Box(left, top, 26, 16)))
        parts.append(f'<text x="{left + 34:.1f}" y="{top + 12.5:.1f}" fill="currentColor">{_LEGENDS[kind]}</text>')
        left += 34 + _CHARACTER * len(_LEGENDS[kind]) + 24
    return parts, left - 24
