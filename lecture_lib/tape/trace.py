"""The tape as a table, and step by step: forwards through the values, then backwards through the gradients.

Plain data: nothing here displays anything, changes a `.grad` or frees the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from . import _rows
from ._rows import TapeRow
from .graph import Array
from .tensor import Tensor


@dataclass(frozen=True, eq=False)
class TraceStep:
    """What is known at one position of the walk.

    Attributes:
        position: 0 to `Trace.last_position`.
        phase: 'start', 'forward', 'seed' or 'backward'.
        active: the name of the row that is being computed or differentiated; None at the start.
        values: by name, the values known so far.
        gradients: by name, the gradients so far; sums that may still grow.
        sentence: what happens here.

    """

    position: int
    phase: Literal["start", "forward", "seed", "backward"]
    active: str | None
    values: dict[str, Array]
    gradients: dict[str, Array]
    sentence: str


class Trace:
    """The rows of a tape in the order of recording, to look at (`print`, `trace['w']`) and to walk (`at`)."""

    def __init__(self, rows: tuple[TapeRow, ...]) -> None:
        self.rows = rows
        self._results = [row for row in rows if row.kind == "result"]
        self._by_name = {row.name: row for row in rows}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TapeRow]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> TapeRow:
        if name not in self._by_name:
            raise KeyError(f"no row is called {name!r}; there are: {_rows.listed(list(self._by_name))}.")
        return self._by_name[name]

    @property
    def last_position(self) -> int:
        """The position at which every gradient is complete: the forward pass, the seed, the backward pass."""
        return 2 * len(self._results) + 1

    def at(self, position: int) -> TraceStep:
        """What is known at a position of the walk.

        Args:
            position: 0: the leaves and constants have values. Then each operation's value appears, in the order of
                recording; then the result's gradient, from which the backward pass starts; then, newest first,
                each operation passes shares to its inputs.

        Raises:
            IndexError: there is no such position.

        """
        if not 0 <= position <= self.last_position:
            raise IndexError(f"position {position}: this walk has the positions 0 to {self.last_position}.")
        computed = self._results[:position]
        newest = computed[-1].number if computed else 0
        values = {row.name: row.value for row in self.rows if row.kind != "result" or row.number <= newest}
        if not position:
            return TraceStep(0, "start", None, values, {}, "Leaves and constants have their values.")
        if position <= len(self._results):
            row = computed[-1]
            sentence = f"{row.operation} computes {row.name} from {_rows.listed(row.inputs)}: {_phrase(row.value)}."
            return TraceStep(position, "forward", row.name, values, {}, sentence)

        row = self.rows[-1]
        assert row.gradient is not None  # `trace` refuses a result without gradient
        gradients = {row.name: row.gradient}
        walked = self._results[::-1][: position - len(self._results) - 1]
        if not walked:
            sentence = f"The backward pass starts: {row.name} has the gradient {_phrase(row.gradient)}."
            return TraceStep(position, "seed", row.name, values, gradients, sentence)
        for row in walked[:-1]:
            _pass_back(row, gradients)
        sentence = _described(walked[-1], gradients)
        _pass_back(walked[-1], gradients)
        return TraceStep(position, "backward", walked[-1].name, values, gradients, sentence)

    def __str__(self) -> str:
        return _rows.as_text(self.rows)

    __repr__ = __str__  # what a console shows

    def _repr_html_(self) -> str:
        return _rows.as_html(self.rows)


def trace(result: Tensor, /, gradient: ArrayLike | None = None, **names: Tensor) -> Trace:
    """The graph of a result as a table: each tensor's value, its gradient and the shares that it passes back.

    Call it before `backward()`, or after `backward(retain_graph=True)`. No `.grad` changes, and nothing is freed.

    Args:
        result: what the gradients are of.
        gradient: d(loss)/d(result), of the result's shape; may be left out for a single number, then it is 1.
        names: tensors of the graph by the name to show: `trace(loss, w=w, b=b)`.

    Raises:
        RuntimeError: nothing was recorded, the graph was freed, or a recorded value was changed since.
        TypeError: a name was given to something that is not a tensor.
        ValueError: a named tensor is not in the graph, or has two names; the gradient's shape or dtype is wrong.

    """
    return Trace(_rows.write_rows(result, gradient, names))


def _pass_back(row: TapeRow, gradients: dict[str, Array]) -> None:
    """Add a row's shares to the gradients of its inputs."""
    for name, share in zip(row.inputs, row.shares, strict=True):
        if share is not None:
            gradients[name] = _rows.read_only(gradients[name] + share) if name in gradients else share


def _described(row: TapeRow, gradients: dict[str, Array]) -> str:
    """What `_pass_back` is about to do, in words."""
    sums = dict(gradients)
    parts = []
    for name, share in zip(row.inputs, row.shares, strict=True):
        if share is None:
            parts.append(f"{name} is a constant and gets none")
        elif name in sums:
            sums[name] = sums[name] + share
            parts.append(f"{name} gets {_phrase(share)} more, together {_phrase(sums[name])}")
        else:
            sums[name] = share
            parts.append(f"{name} gets {_phrase(share)}")
    gradient = _phrase(gradients[row.name])
    return f"{row.operation} passes on the gradient of {row.name}, {gradient}: {_rows.listed(parts, '; ')}."


def _phrase(array: Array) -> str:
    text = _rows.written(array)
    return f"an array of {text}" if text.startswith("shape") else text
