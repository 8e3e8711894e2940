"""The graph of a result written down row by row, and rows as a table of text or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ._checks import seed
from .graph import Array, Node, backward_pass, unbroadcast
from .tensor import Tensor

Kind = Literal["leaf", "constant", "result"]
_LETTERS: dict[Kind, str] = {"leaf": "x", "constant": "c", "result": "v"}

WRITTEN_OUT = 6  # entries; larger arrays are shown as their shape
SHOWN_ROWS = 40  # longer tables show half of these from the start and half from the end
SHOWN_ITEMS = 6  # longer lists show the first ones and the last

_COLUMNS = ("row", "name", "operation", "inputs", "shape", "value", "gradient", "passes back")


@dataclass(frozen=True, eq=False, slots=True)
class TapeRow:
    """A tensor of the graph.

    Attributes:
        number: 1, 2, … in the order of recording.
        name: the given one, or x1, x2, … for leaves, c1, … for constants and v1, … for results.
        kind: 'leaf' (gets a gradient), 'constant' (an input that needs none) or 'result' of an operation.
        operation: what made it; '' for leaves and constants.
        inputs: the names of the operation's inputs, in their order; an input that is used twice appears twice.
        value: read-only, of the tensor's shape.
        gradient: of the traced result with respect to this tensor, of its shape; None for a constant.
        shares: for each input, what it gets of `gradient` from this operation, of the input's shape; None for a
            constant. A tensor's gradient is the sum of the shares that it gets from everything that used it.

    """

    number: int
    name: str
    kind: Kind
    operation: str
    inputs: tuple[str, ...]
    value: Array
    gradient: Array | None
    shares: tuple[Array | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.value.shape


def write_rows(result: Tensor, gradient: ArrayLike | None, names: dict[str, Tensor]) -> tuple[TapeRow, ...]:
    """The rows in the order of recording, the result's last; arguments and errors as in `trace`."""
    gradients = {node: read_only(total) for node, total in backward_pass(result, seed(result, gradient))}
    used = {source for node in gradients for source in node._inputs or ()}
    nodes = sorted(used | {result}, key=attrgetter("_number"))
    labels = _named(nodes, names)
    return tuple(
        TapeRow(
            number=number,
            name=labels[node],
            kind=_kind(node),
            operation=node._operation,
            inputs=tuple(labels[source] for source in node._inputs or ()) if node in gradients else (),
            value=node._array,
            gradient=gradients.get(node),
            shares=_shares(node, gradients[node]) if node in gradients else (),
        )
        for number, node in enumerate(nodes, start=1)
    )


def _kind(node: Node) -> Kind:
    if not node._requires_grad:
        return "constant"
    return "result" if node._operation else "leaf"


def _shares(node: Node, gradient: Array) -> tuple[Array | None, ...]:
    """What each input gets of a node's gradient; None for a constant."""
    return tuple(
        read_only(unbroadcast(rule(gradient), source, node)) if source._requires_grad else None
        for source, rule in zip(node._inputs or (), node._rules, strict=True)
    )


def _named(nodes: Sequence[Node], tensors: Mapping[str, Tensor]) -> dict[Node, str]:
    """A different name for each node: the given one, or a letter for its kind and a number."""
    names: dict[Node, str] = {}
    graph = set(nodes)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}= is a {type(tensor).__name__}; only tensors have names: {name}=Tensor(...).")
        if tensor in names:
            raise ValueError(f"{names[tensor]} and {name} name the same tensor. Leave one of them out.")
        if tensor not in graph:
            raise ValueError(
                f"{name} is not in the graph: no operation on the way to the result used this tensor of shape "
                f"{tensor.shape}. Leave it out, or compute the result from it."
            )
        names[tensor] = name
    numbers = {kind: count(1) for kind in _LETTERS}
    for node in nodes:
        kind = _kind(node)
        while node not in names:
            name = f"{_LETTERS[kind]}{next(numbers[kind])}"
            if name not in tensors:
                names[node] = name
    return names


def read_only(array: Array) -> Array:
    """A view that cannot be written: two rows may have the same array for their gradients."""
    view = np.asarray(array).view()
    view.setflags(write=False)
    return view


# Tables.


def written(array: Array | np.generic) -> str:
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


def as_text(rows: Sequence[TapeRow]) -> str:
    """The table with aligned columns."""
    first, left_out, last = _shortened(rows)
    table = [_COLUMNS, *map(_cells, first), *map(_cells, last)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join([cells[0].rjust(widths[0]), *map(str.ljust, cells[1:], widths[1:])]).rstrip() for cells in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if left_out:
        lines.insert(2 + len(first), f"… {left_out} rows …")
    return "\n".join([_caption(rows), "", *lines])


def as_html(rows: Sequence[TapeRow]) -> str:
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


def _html_row(row: TapeRow) -> str:
    number, name, *columns = map(escape, _cells(row))
    cells = "".join(f"<td>{cell}</td>" for cell in columns)
    return f'<tr><td>{number}</td><th scope="row">{name}</th>{cells}</tr>'


def _caption(rows: Sequence[TapeRow]) -> str:
    root = rows[-1]
    assert root.gradient is not None  # `trace` refuses a result without gradient
    return (
        f"The tape of {root.name}: {len(rows)} row{'s' * (len(rows) > 1)} in the order of recording. "
        f"The backward pass starts from the gradient of {root.name}, which is {written(root.gradient)}."
    )


def _cells(row: TapeRow) -> tuple[str, ...]:
    parts = zip(row.inputs, row.shares, strict=True)
    shares = [f"{name}: {written(share)}" for name, share in parts if share is not None]
    gradient = "none" if row.gradient is None else written(row.gradient)
    operation = row.operation or row.kind
    inputs = listed(row.inputs)
    return str(row.number), row.name, operation, inputs, str(row.shape), written(row.value), gradient, listed(shares)


def _shortened(rows: Sequence[TapeRow]) -> tuple[Sequence[TapeRow], int, Sequence[TapeRow]]:
    """The first rows, how many are left out, and the last rows."""
    if len(rows) <= SHOWN_ROWS:
        return rows, 0, ()
    half = SHOWN_ROWS // 2
    return rows[:half], len(rows) - 2 * half, rows[-half:]
