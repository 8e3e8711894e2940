"""Layers, that is functions with parameters, and a loss. Only what training digits needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _checks
from .operations import arithmetic, functions
from .tensor import Tensor, apply


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x @ weight + bias in one operation: [examples, inputs], [inputs, outputs] and [outputs]."""
    return apply(arithmetic.linear, x, weight, bias)


def cross_entropy(logits: Tensor, labels: ArrayLike | Tensor) -> Tensor:
    """The mean of -log softmax(logits)[label] over a batch.

    Args:
        logits: [examples, classes], before softmax.
        labels: [examples], integers 0 to classes - 1.

    Raises:
        TypeError: labels that are not integers.
        ValueError: labels out of range, or other shapes.

    """
    return apply(functions.cross_entropy, logits, labels=labels)


class Module:
    """A function of a tensor, with parameters."""

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's result for `x`."""
        raise NotImplementedError

    def parameters(self) -> Iterator[Tensor]:
        """The tensors that training changes, in a fixed order."""
        return iter(())

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.zero_grad()


class Linear(Module):
    """x @ weight + bias, with PyTorch's initialisation: both uniform in ±1/√inputs.

    Args:
        inputs: width of the layer's input; `weight` has shape [inputs, outputs] (PyTorch keeps it transposed).
        outputs: width of its result; `bias` has shape [outputs].
        generator: where the initial values come from: np.random.default_rng(seed).
        dtype: np.float64 or np.float32.

    Raises:
        ValueError: a width is not a positive integer.

    """

    def __init__(
        self, inputs: int, outputs: int, *, generator: np.random.Generator, dtype: DTypeLike = np.float64
    ) -> None:
        _checks.width(inputs)
        _checks.width(outputs)
        bound = 1 / np.sqrt(inputs)
        weight = generator.uniform(-bound, bound, (inputs, outputs))
        bias = generator.uniform(-bound, bound, outputs)
        self.weight = Tensor(weight, dtype=dtype, requires_grad=True)
        self.bias = Tensor(bias, dtype=dtype, requires_grad=True)

    def __call__(self, x: Tensor) -> Tensor:
        """[examples, inputs] -> [examples, outputs]."""
        return apply(arithmetic.linear, x, self.weight, self.bias)

    def parameters(self) -> Iterator[Tensor]:
        """Weight, then bias."""
        yield self.weight
        yield self.bias


class ReLU(Module):
    """x where it is positive, else 0."""

    def __call__(self, x: Tensor) -> Tensor:
        """The same shape as `x`."""
        return apply(functions.relu, x)


class Sequential(Module):
    """Layers, one after the other."""

    def __init__(self, *layers: Module) -> None:
        self.layers = layers

    def __call__(self, x: Tensor) -> Tensor:
        """The last layer's result, each layer applied to the result of the layer before."""
        for layer in self.layers:
            x = layer(x)
        return x

    def parameters(self) -> Iterator[Tensor]:
        """The parameters of each layer, in order."""
        for layer in self.layers:
            yield from layer.parameters()
