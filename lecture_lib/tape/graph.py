"""The graph: its nodes, when operations are recorded, and how gradients flow back.

A node knows the operation that made it and that operation's inputs, each with its backward rule. `backward_pass`
follows these links from a result to the leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from typing import Self

import numpy as np

from . import _checks

Array = np.ndarray
# The gradient of an operation's result -> what it contributes to the gradient of one input.
Rule = Callable[[Array], Array]

# Every node gets the next number when it is made, and again when its values are replaced. An operation's inputs exist
# before its result, so the numbers are a topological order; and an input whose number is later than that of the
# operation which used it was changed since.
numbers = count()


class Mode(threading.local):
    """What this thread does with operations."""

    recording = True
    replay: Callable[[str, Array], Array] | None = None  # lets gradcheck replace the value of each operation


mode = Mode()


@contextmanager
def no_grad() -> Iterator[None]:
    """Record nothing inside the `with` block: for evaluation, and for changing parameters in place."""
    before = mode.recording
    mode.recording = False
    try:
        yield
    finally:
        mode.recording = before


class Node:
    """A value in the graph: an array, the operation that made it and the inputs of that operation."""

    __slots__ = ("_array", "_inputs", "_number", "_operation", "_requires_grad", "_rules", "_used_by", "grad")

    grad: Array | None
    _array: Array  # never written: a node that is changed gets a new one
    _requires_grad: bool
    _operation: str  # "" for a leaf
    _inputs: Sequence[Node] | None  # () for a leaf, None once the graph was freed
    _rules: Sequence[Rule]  # the backward rule for each input
    _number: int  # see `numbers`
    _used_by: str  # the last operation that recorded this value, for errors

    def _fill(self, array: Array, requires_grad: bool) -> Self:
        self._array = array
        self._requires_grad = requires_grad
        self._operation = ""
        self._inputs = self._rules = ()
        self._number = next(numbers)
        self._used_by = ""
        self.grad = None
        return self


def backward_pass(root: Node, gradient: Array) -> Iterator[tuple[Node, Array]]:
    """Each node that `root` depends on, newest first, with d(loss)/d(node), given d(loss)/d(root).

    A node comes after everything that was computed from it, so its gradient is complete by then.
    """
    gradients = {root: gradient}
    for node in newest_first(root):
        gradient = gradients.pop(node)
        gradient.setflags(write=False)  # all rules of the operation get this array
        yield node, gradient
        for source, rule in zip(node._inputs or (), node._rules):  # noqa: B905 (strict=True is slower)
            if source._requires_grad:
                part, wanted = rule(gradient), source._array
                if type(part) is not Array or part.shape != wanted.shape or part.dtype is not wanted.dtype:
                    part = unbroadcast(part, source, node)
                gradients[source] = np.asarray(gradients[source] + part) if source in gradients else part


def newest_first(root: Node) -> list[Node]:
    """The nodes that `root` depends on and that require gradients, itself included; no recursion.

    Raises:
        RuntimeError: part of the graph was freed, or a value was changed after an operation had used it.

    """
    nodes, visited = [root], {root}
    for node in nodes:  # the list grows during the loop
        if node._inputs is None:
            raise _checks.freed(node)
        for source in node._inputs:
            if source._number > node._number:
                raise _checks.changed(node, source)
            if source._requires_grad and source not in visited:
                visited.add(source)
                nodes.append(source)
    return sorted(nodes, key=attrgetter("_number"), reverse=True)


def unbroadcast(part: Array, source: Node, result: Node) -> Array:
    """Undo broadcasting: an entry that was used many times gets the sum of the gradients of its uses."""
    part, shape = np.asarray(part), source._array.shape
    added = max(part.ndim - len(shape), 0)
    stretched = [axis for axis in range(added, part.ndim) if shape[axis - added] == 1]
    part = part.sum(axis=(*range(added), *stretched), keepdims=True)
    return _checks.gradient_of(source, part.reshape(part.shape[added:]), result)
