"""Layers: functions with parameters. Only what training digits needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from . import checks
from .operations import arithmetic, functions
from .tensor import Tensor


class Module:
    """Something with parameters that is called with a tensor."""

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
        ValueError: a width is no positive integer.

    """

    def __init__(
        self, inputs: int, outputs: int, *, generator: np.random.Generator, dtype: DTypeLike = np.float64
    ) -> None:
        checks.width(inputs)
        checks.width(outputs)
        bound = 1 / np.sqrt(inputs)
        weight = generator.uniform(-bound, bound, (inputs, outputs))
        bias = generator.uniform(-bound, bound, outputs)
        self.weight = Tensor(weight, dtype=dtype, requires_grad=True)
        self.bias = Tensor(bias, dtype=dtype, requires_grad=True)

    def __call__(self, x: Tensor) -> Tensor:
        """[examples, inputs] -> [examples, outputs]."""
        return arithmetic.linear(x, self.weight, self.bias)

    def parameters(self) -> Iterator[Tensor]:
        """Weight, then bias."""
        yield self.weight
        yield self.bias


class ReLU(Module):
    """x where it is positive, else 0."""

    def __call__(self, x: Tensor) -> Tensor:
        """The same shape as `x`."""
        return functions.relu(x)


class Sequential(Module):
    """Layers, one after the other."""

    def __init__(self, *layers: Module) -> None:
        self.layers = layers

    def __call__(self, x: Tensor) -> Tensor:
        """What the last layer makes of what the one before made of `x`, and so on."""
        for layer in self.layers:
            x = layer(x)
        return x

    def parameters(self) -> Iterator[Tensor]:
        """Those of each layer, in order."""
        for layer in self.layers:
            yield from layer.parameters()
