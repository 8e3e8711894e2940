"""Rows of a trace as a table of text and as an accessible one of HTML; values in few characters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .rows import Row

WRITTEN_OUT = 6  # entries; larger arrays are shown as their shape
SHOWN_ROWS = 40  # longer tables show half of these from the start and half from the end
SHOWN_ITEMS = 6  # longer lists show the first ones and the last

_COLUMNS = ("row", "name", "operation", "inputs", "shape", "value", "gradient", "passes back")


def written(array: np.ndarray | np.generic) -> str:
    """A number or a small array with 4 significant digits, a larger array as its shape."""
    return f"shape {array.shape}" if array.size > WRITTEN_OUT else _nested(array.tolist())


def _nested(entry: object) -> str:
    if isinstance(entry, list):
        return f"[{', '.join(map(_nested, entry))}]"
    return f"{entry + 0.0:.4g}" if isinstance(entry, float) else str(entry)  # + 0.0: no -0


def listed(items: Sequence[str], separator: str = ", ") -> str:
    """Items in a line; of many, the first ones, how many are left out, and the last."""
    if len(items) > SHOWN_ITEMS:
        left_out = len(items) - SHOWN_ITEMS + 1
        items = [*items[: SHOWN_ITEMS - 2], f"… {left_out} more …", items[-1]]
    return separator.join(items)


def as_text(rows: Sequence[Row]) -> str:
    """The table with aligned columns."""
    first, left_out, last = _shortened(rows)
    table = [_COLUMNS, *map(_cells, first), *map(_cells, last)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join([cells[0].rjust(widths[0]), *map(str.ljust, cells[1:], widths[1:])]).rstrip() for cells in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if left_out:
        lines.insert(2 + len(first), f"… {left_out} rows …")
    return "\n".join([_caption(rows), "", *lines])


def as_html(rows: Sequence[Row]) -> str:
    """The table with a caption, and with headers for its columns and rows."""
    first, left_out, last = _shortened(rows)
    lines = ["<table>", f"<caption>{escape(_caption(rows))}</caption>"]
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS) + "</tr></thead>")
    lines.append("<tbody>")
    lines += map(_html_row, first)
    if left_out:
        lines.append(f'<tr><td colspan="{len(_COLUMNS)}">… {left_out} rows …</td></tr>')
    lines += map(_html_row, last)
    return "\n".join([*lines, "</tbody>", "</table>"])


def _html_row(row: Row) -> str:
    number, name, *others = map(escape, _cells(row))
    cells = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr><td>{number}</td><th scope="row">{name}</th>{cells}</tr>'


def _caption(rows: Sequence[Row]) -> str:
    root = rows[-1]
    assert root.gradient is not None  # a trace of something without gradient is refused
    return (
        f"The tape of {root.name}: {len(rows)} row{'s' * (len(rows) > 1)} in the order of recording. "
        f"The walk back starts from the gradient of {root.name}, {written(root.gradient)}."
    )


def _cells(row: Row) -> tuple[str, ...]:
    parts = zip(row.inputs, row.shares, strict=True)
    shares = [f"{name}: {written(share)}" for name, share in parts if share is not None]
    gradient = "none" if row.gradient is None else written(row.gradient)
    operation = row.operation or row.kind
    inputs = listed(row.inputs)
    return str(row.number), row.name, operation, inputs, str(row.shape), written(row.value), gradient, listed(shares)


def _shortened(rows: Sequence[Row]) -> tuple[Sequence[Row], int, Sequence[Row]]:
    """The first rows, how many are left out, and the last rows."""
    if len(rows) <= SHOWN_ROWS:
        return rows, 0, ()
    half = SHOWN_ROWS // 2
    return rows[:half], len(rows) - 2 * half, rows[-half:]
