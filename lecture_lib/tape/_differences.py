"""A function of tensors run again: with an entry moved, or with all operations but one held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from .graph import Array, Node, mode, newest_first
from .tensor import Tensor

Function = Callable[..., Tensor]


class TapeRun:
    """One run of a function: its result, and the operations in the order of recording.

    With `tensor`, an entry of it is moved by `step` (see `width`). With `held`, all other operations give what they
    gave in that earlier run, whatever their inputs, and `values` has what they would have given.
    """

    def __init__(
        self,
        function: Function,
        inputs: tuple[Tensor, ...],
        tensor: Node | None = None,
        entry: tuple[int, ...] = (),
        step: float = 0.0,
        held: TapeRun | None = None,
    ) -> None:
        self.operations: list[str] = []
        self.values: list[Array] = []  # as computed, before anything is moved or held
        self.used: list[Array] = []  # as the operations that follow get them
        moved = None if tensor is None else _moved(tensor, entry, step)

        def replay(operation: str, value: Array) -> Array:
            place = len(self.values)
            self.operations.append(operation)
            self.values.append(value)
            if held is not None:
                value = held.used[place]
                if tensor is not None and value is tensor._array and moved is not None:
                    value = moved
            self.used.append(value.view())
            return self.used[-1]

        with _replaying(replay), _leaf_moved(tensor, moved):
            self.result = function(*inputs)

    def place(self, node: Node) -> int:
        """Which operation made it: 0 for the first."""
        return next(place for place, value in enumerate(self.used) if value is node._array)

    def same_constants(self, run: TapeRun, place: int) -> bool:
        """Whether operation number `place` got the same values from outside the tape in both runs."""
        pairs = zip(self._constants(place), run._constants(place), strict=False)
        return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    def _constants(self, place: int) -> list[Array]:
        made = (node for node in newest_first(self.result) if node._array is self.used[place])
        return [source._array for node in made for source in node._inputs or () if not source._requires_grad]

    def same_as(self, run: TapeRun) -> bool:
        """Whether both recorded the same operations and values."""
        pairs = zip(self.values, run.values, strict=False)
        return self.operations == run.operations and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def width(tensor: Node, entry: tuple[int, ...], step: float) -> float:
    """How far an entry is moved: the step, in proportion for entries above 1."""
    return step * max(1.0, abs(float(tensor._array[entry])))


def _moved(tensor: Node, entry: tuple[int, ...], step: float) -> Array:
    moved = tensor._array.copy()
    moved[entry] += width(tensor, entry, step)
    moved.setflags(write=False)
    return moved


@contextmanager
def _replaying(replay: Callable[[str, Array], Array]) -> Iterator[None]:
    before = mode.replay
    mode.replay = replay
    try:
        yield
    finally:
        mode.replay = before


@contextmanager
def _leaf_moved(tensor: Node | None, moved: Array | None) -> Iterator[None]:
    """The leaf with moved values; results of operations are moved as they are recorded."""
    if tensor is None or moved is None or tensor._operation:
        yield
        return
    before = tensor._array
    tensor._array = moved
    try:
        yield
    finally:
        tensor._array = before
