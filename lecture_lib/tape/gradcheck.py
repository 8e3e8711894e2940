"""Backward rules against central differences: is the gradient right, and if not, which operation's rule is wrong?"""

from __future__ import annotations

import numpy as np

from ._differences import Function, TapeRun, width
from .graph import Array, Node, backward_pass, newest_first, unbroadcast
from .tensor import Tensor


class GradientError(ArithmeticError):
    """A backward rule and the differences of its forward disagree."""


def gradcheck(function: Function, *inputs: Tensor, step: float = 1e-6, tolerance: float = 1e-6) -> float:
    """Compare the gradient of `function(*inputs)` with central differences, for every entry of every input.

    A result with several entries is multiplied by fixed random weights and summed. At a kink (relu at 0) every
    value between the two one-sided differences counts as right. When the gradient is wrong, each operation is checked
    on its own, with the values of the others held, to name the one that is wrong.

    Args:
        function: computes a tensor from the inputs, the same one each time.
        inputs: float64 leaves that require gradients; other tensors may be used by `function` without being checked.
        step: h for entries of size up to 1; h times the size for larger ones.
        tolerance: largest difference between gradient and central difference, for values up to 1; relative above.

    Returns:
        The largest difference, measured like the tolerance.

    Raises:
        GradientError: a rule is wrong; the message names the operation, the input and the entry.
        TypeError: an input is not a float64 leaf that requires gradients.
        RuntimeError: two calls of `function` record different operations or values.

    Source:
        Central differences: f'(x) = (f(x + h) - f(x - h)) / 2h + O(h²).

    """
    for position, leaf in enumerate(inputs):
        if not (isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_leaf and leaf.dtype == np.float64):
            raise TypeError(
                f"gradcheck: input {position} is {leaf!r}; it wants float64 leaves that require gradients, because "
                "finite differences need that precision. Make it with Tensor(values, requires_grad=True)."
            )
    tape = TapeRun(function, inputs)
    if not tape.same_as(TapeRun(function, inputs)):
        raise RuntimeError(
            "gradcheck: two calls of the function recorded different operations or values, so differences say nothing. "
            "Give it a generator with the same seed in each call."
        )
    weights = np.random.default_rng(0).uniform(0.5, 1.5, tape.result.shape)
    gradients = dict(backward_pass(tape.result, weights))
    largest = 0.0
    for position, leaf in enumerate(inputs):
        gradient = gradients.get(leaf, np.zeros(leaf.shape))
        for entry in np.ndindex(leaf.shape):
            low, high = (TapeRun(function, inputs, leaf, entry, sign * step) for sign in (-1, 1))
            values = [weights * run.result._array for run in (low, tape, high)]
            compared = _Comparison(gradient[entry], values, width(leaf, entry, step))
            if compared.beyond(tolerance):
                raise GradientError(
                    _blame(function, inputs, tape, step, tolerance)
                    or f"input {position}, entry {entry}: the gradient is {compared.gradient:.6g}, central differences "
                    f"{compared.central:.6g}, yet each operation on its own is right. Some computation bypasses the "
                    "tape: look for .data, detach(), no_grad() or NumPy."
                )
            largest = max(largest, 0.0 if compared.at_a_kink else compared.difference)
    return largest


class _Comparison:
    """A gradient and the differences of a forward computation, whose values are given before, at and after."""

    def __init__(self, gradient: Array, values: list[Array], width: float) -> None:
        before, at, after = (float(value.sum()) for value in values)
        self.gradient = float(gradient)
        self.central = (after - before) / (2 * width)
        left, right = (at - before) / width, (after - at) / width
        size = max(1.0, abs(self.central), abs(self.gradient))
        self.difference = abs(self.gradient - self.central) / size
        # What float64 cannot tell: the values' own rounding, divided by the step.
        self.rounding = 4 * np.finfo(np.float64).eps * float(np.abs(values[1]).sum()) / width / size
        # On a smooth stretch the two sides differ by about the step.
        self.at_a_kink = min(left, right) <= self.gradient <= max(left, right) and abs(left - right) > 1e-2 * size

    def beyond(self, tolerance: float) -> bool:
        """Whether they disagree; NaN agrees with nothing."""
        return not (self.difference <= tolerance + self.rounding or self.at_a_kink)


def _blame(function: Function, inputs: tuple[Tensor, ...], tape: TapeRun, step: float, tolerance: float) -> str | None:
    """The first operation whose rule is wrong, in words; each is checked on its own, with the others held."""
    for result in reversed([node for node in newest_first(tape.result) if node._operation]):
        place = tape.place(result)
        weights = np.random.default_rng(place).uniform(0.5, 1.5, result._array.shape)
        gradients = _gradients(result, weights)
        for number, source in enumerate(result._inputs or ()):
            shape = source._array.shape
            for entry in np.ndindex(shape if source in gradients else (0,)):
                low, high = (TapeRun(function, inputs, source, entry, sign * step, held=tape) for sign in (-1, 1))
                values = [weights * run.values[place] for run in (low, tape, high)]
                compared = _Comparison(gradients[source][entry], values, width(source, entry, step))
                if compared.beyond(tolerance) and low.same_constants(high, place):
                    return (
                        f"operation '{result._operation}' (number {place + 1} of {len(tape.operations)}): for its "
                        f"input {number} of shape {shape}, entry {entry}, the backward rule gives "
                        f"{compared.gradient:.6g}, central differences {compared.central:.6g}. "
                        "Look at that rule's formula."
                    )
    return None


def _gradients(result: Node, weights: Array) -> dict[Node, Array]:
    """What all rules for an input give together: x * x has two."""
    gradients: dict[Node, Array] = {}
    for source, rule in zip(result._inputs or (), result._rules, strict=True):
        if source._requires_grad:
            part = unbroadcast(rule(weights), source, result)
            gradients[source] = gradients.get(source, np.zeros(part.shape)) + part
    return gradients
