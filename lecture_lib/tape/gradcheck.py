"""Backward rules against central differences: is the gradient right, and if not, which operation's rule is wrong?"""

from __future__ import annotations

import numpy as np

from . import errors
from .graph import Array, fitted, newest_first, walk_back
from .replay import Function, Run, width
from .tensor import Tensor


class GradientError(ArithmeticError):
    """A backward rule and the differences of its forward disagree."""


def gradcheck(function: Function, *inputs: Tensor, step: float = 1e-6, tolerance: float = 1e-6) -> float:
    """Compare the gradient of `function(*inputs)` with central differences, for every entry of every input.

    A result that is no single number is multiplied with fixed random weights and summed. At a kink (relu at 0) every
    value between the two one-sided differences counts as right. When the gradient is wrong, each operation is checked
    on its own, with the others' values held, to name the one that is off.

    Args:
        function: computes a tensor from the inputs, the same one each time.
        inputs: float64 leaves that require gradients; other tensors may be used by `function` without being checked.
        step: the difference in an entry of size up to 1; in proportion for larger ones.
        tolerance: largest difference between gradient and central difference, for values up to 1; relative above.

    Returns:
        The largest difference found, measured like the tolerance.

    Raises:
        GradientError: a rule is off; the message names the operation, the input and the entry.
        TypeError: an input is no float64 leaf that requires gradients.
        RuntimeError: two calls of `function` record different operations or values.

    Source:
        Central differences: f'(x) = (f(x + h) - f(x - h)) / 2h + O(h²).

    """
    for position, leaf in enumerate(inputs):
        if not (isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_leaf and leaf.dtype == np.float64):
            raise TypeError(errors.GRADCHECK_INPUT.format(position=position, got=repr(leaf)))
    tape = Run(function, inputs)
    if not tape.same_as(Run(function, inputs)):
        raise RuntimeError(errors.GRADCHECK_RANDOM)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, tape.result.shape)
    gradients = dict(walk_back(tape.result, weights))
    largest = 0.0
    for position, leaf in enumerate(inputs):
        gradient = gradients.get(leaf, np.zeros(leaf.shape))
        for entry in np.ndindex(leaf.shape):
            low, high = (Run(function, inputs, leaf, entry, sign * step) for sign in (-1, 1))
            values = [weights * run.result._array for run in (low, tape, high)]
            compared = Comparison(gradient[entry], values, width(leaf, entry, step))
            if compared.beyond(tolerance):
                _name_operation(function, inputs, tape, step, tolerance)
                raise GradientError(errors.GRADIENT_OUTSIDE.format(position=position, entry=entry, compared=compared))
            largest = max(largest, 0.0 if compared.at_a_kink else compared.difference)
    return largest


class Comparison:
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


def _name_operation(function: Function, inputs: tuple[Tensor, ...], tape: Run, step: float, tolerance: float) -> None:
    """Check each operation on its own, the others held, and raise for the first one recorded that is off."""
    for result in reversed([tensor for tensor in newest_first(tape.result) if not tensor.is_leaf]):
        place = tape.place(result)
        weights = np.random.default_rng(place).uniform(0.5, 1.5, result.shape)
        shares = _shares(result, weights)
        for number, (source, _) in enumerate(result._inputs or ()):
            for entry in np.ndindex(source.shape if source in shares else (0,)):
                low, high = (Run(function, inputs, source, entry, sign * step, held=tape) for sign in (-1, 1))
                values = [weights * run.values[place] for run in (low, tape, high)]
                compared = Comparison(shares[source][entry], values, width(source, entry, step))
                if compared.beyond(tolerance) and low.same_constants(high, place):
                    raise GradientError(
                        errors.GRADIENT.format(
                            operation=result._operation,
                            place=place + 1,
                            count=len(tape.operations),
                            number=number,
                            shape=source.shape,
                            entry=entry,
                            compared=compared,
                        )
                    )


def _shares(result: Tensor, weights: Array) -> dict[Tensor, Array]:
    """What all rules for one input give together: x * x has two."""
    shares: dict[Tensor, Array] = {}
    for source, rule in result._inputs or ():
        if source.requires_grad:
            shares[source] = shares.get(source, np.zeros(source.shape)) + fitted(rule(weights), source, result)
    return shares
