"""The graph of a result written down row by row: each tensor's value, gradient and the shares that it passes back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .checks import seed
from .graph import walk_back
from .tensor import Tensor

Array = np.ndarray
Kind = Literal["leaf", "constant", "result"]
_LETTERS: dict[Kind, str] = {"leaf": "x", "constant": "c", "result": "v"}


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """A tensor of the graph.

    Attributes:
        number: 1, 2, … in the order of recording.
        name: the given one, or x1, x2, … for leaves, c1, … for constants and v1, … for results.
        kind: 'leaf' (gets a gradient), 'constant' (an input that needs none) or 'result' of an operation.
        operation: what made it; '' for leaves and constants.
        inputs: the names of the operation's inputs, in their order; one that is used twice stands there twice.
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


def write_rows(result: Tensor, gradient: ArrayLike | None, names: dict[str, Tensor]) -> tuple[Row, ...]:
    """The rows in the order of recording, the result's last; arguments and errors as in `trace`."""
    gradients: dict[Tensor, Array] = {}
    shares: dict[Tensor, tuple[Array | None, ...]] = {}
    for tensor, total in walk_back(result, seed(result, gradient)):
        gradients[tensor] = read_only(total)
        shares[tensor] = _shares(tensor, total)
    used = {source for tensor in gradients for source, _ in tensor._inputs or ()}
    tensors = sorted(used | {result}, key=attrgetter("_number"))
    shown = _named(tensors, names)
    return tuple(
        Row(
            number=number,
            name=shown[tensor],
            kind=_kind(tensor),
            operation=tensor._operation,
            inputs=tuple(shown[source] for source, _ in tensor._inputs or ()) if tensor in gradients else (),
            value=tensor._array,
            gradient=gradients.get(tensor),
            shares=shares.get(tensor, ()),
        )
        for number, tensor in enumerate(tensors, start=1)
    )


def _kind(tensor: Tensor) -> Kind:
    if not tensor._requires_grad:
        return "constant"
    return "result" if tensor._operation else "leaf"


def _shares(tensor: Tensor, gradient: Array) -> tuple[Array | None, ...]:
    """What each input gets of a tensor's gradient: a walk back over this operation alone, each input standing apart."""
    alone_inputs = []
    for source, rule in tensor._inputs or ():
        stand_in = source.detach()
        stand_in._requires_grad = source._requires_grad
        alone_inputs.append((stand_in, rule))
    alone = tensor.detach()
    alone._requires_grad, alone._operation, alone._inputs = True, tensor._operation, tuple(alone_inputs)
    found = {source: read_only(share) for source, share in walk_back(alone, gradient)}
    return tuple(found.get(stand_in) for stand_in, _ in alone_inputs)


def _named(tensors: list[Tensor], given: dict[str, Tensor]) -> dict[Tensor, str]:
    """A different name for each tensor: the given one, or a letter for its kind and a number."""
    names: dict[Tensor, str] = {}
    graph = set(tensors)
    for name, tensor in given.items():
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
    for tensor in tensors:
        kind = _kind(tensor)
        while tensor not in names:
            name = f"{_LETTERS[kind]}{next(numbers[kind])}"
            if name not in given:
                names[tensor] = name
    return names


def read_only(array: Array) -> Array:
    """A view that cannot be written: two rows may have the same array for their gradients."""
    view = np.asarray(array).view()
    view.setflags(write=False)
    return view
