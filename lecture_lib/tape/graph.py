"""The graph: when operations are recorded, and how gradients flow back through them.

A tensor knows the operation that made it and that operation's inputs, each with its backward rule (`tensor.record`).
`walk_back` follows these links from a result to the leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from . import checks

if TYPE_CHECKING:
    from .tensor import Tensor

Array = np.ndarray
# The gradient of an operation's result -> the share of it that one input gets.
Rule = Callable[[Array], Array]
Inputs = tuple[tuple["Tensor", Rule], ...]

# Every tensor gets the next number when it is made, and again when its values are replaced. An operation's inputs exist
# before its result, so the numbers are a topological order; and an input whose number is later than that of the
# operation which used it was changed since.
numbers = count()


class Mode(threading.local):
    """What this thread does with operations."""

    recording = True
    replay: Callable[[str, Array], Array] | None = None  # gradcheck's: sees each value, and may give another


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


def walk_back(root: Tensor, gradient: Array) -> Iterator[tuple[Tensor, Array]]:
    """Each tensor that `root` depends on, newest first, with d(loss)/d(tensor), given d(loss)/d(root).

    A tensor comes after everything that was computed from it, so its gradient is complete when it comes.
    """
    gradients = {root: gradient}
    for tensor in newest_first(root):
        gradient = gradients.pop(tensor)
        gradient.setflags(write=False)  # rules share it
        yield tensor, gradient
        for source, rule in tensor._inputs or ():
            if source._requires_grad:
                share, wanted = rule(gradient), source._array
                if type(share) is not Array or share.shape != wanted.shape or share.dtype is not wanted.dtype:
                    share = fitted(share, source, tensor)
                gradients[source] = np.asarray(gradients[source] + share) if source in gradients else share


def newest_first(root: Tensor) -> list[Tensor]:
    """The tensors that `root` depends on and that require gradients, itself included; no recursion.

    Raises:
        RuntimeError: part of the graph was freed, or a value was changed after an operation had used it.

    """
    found = [root]
    seen = {root}
    for tensor in found:  # it grows meanwhile
        for source, _ in checks.intact(tensor):
            if source._requires_grad and source not in seen:
                seen.add(source)
                found.append(source)
    return sorted(found, key=attrgetter("_number"), reverse=True)


def fitted(share: Array, source: Tensor, result: Tensor) -> Array:
    """Undo broadcasting: an entry that was used many times gets the sum of the gradients of its uses."""
    share, shape = np.asarray(share), source._array.shape
    added = max(share.ndim - len(shape), 0)
    stretched = [axis for axis in range(added, share.ndim) if shape[axis - added] == 1]
    share = share.sum(axis=(*range(added), *stretched), keepdims=True)
    return checks.gradient_of(source, share.reshape(share.shape[added:]), result)
