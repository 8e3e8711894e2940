"""Optimizers: from gradients to the next parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from . import _checks
from .graph import Array
from .tensor import Tensor


class Optimizer:
    """Parameters, and what is kept for each of them between steps.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive; may be changed between steps.

    Raises:
        ValueError: no parameters, a parameter given twice, or a rate that is not positive and finite.
        TypeError: anything but a leaf that requires gradients.

    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        _checks.parameters(self.parameters)
        for parameter in self.parameters:
            if not (isinstance(parameter, Tensor) and parameter.requires_grad and parameter.is_leaf):
                raise _checks.no_parameter(parameter)
        _checks.learning_rate(learning_rate)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Change every parameter that has a gradient.

        Raises:
            RuntimeError: no parameter has a gradient.

        """
        rate = float(self.learning_rate)  # a NumPy scalar would promote float32 to float64
        changed = False
        for position, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                change = rate * self.direction(position, parameter.grad)
                parameter._replace(parameter._array - change, "optimizer.step()")
                changed = True
        if not changed:
            raise _checks.no_gradients()

    def direction(self, position: int, gradient: Array) -> Array:
        """What is subtracted from parameter number `position`, for a learning rate of 1."""
        raise NotImplementedError


class SGD(Optimizer):
    """Gradient descent: v = momentum · v + gradient (at first the gradient), w = w - learning_rate · v.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive.
        momentum: at least 0 (no momentum) and below 1.

    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, momentum: float = 0.0) -> None:
        super().__init__(parameters, learning_rate)
        _checks.fraction("momentum", momentum)
        self.momentum = momentum
        self.velocities: list[Array | None] = [None] * len(self.parameters)

    def direction(self, position: int, gradient: Array) -> Array:
        """The velocity."""
        if not self.momentum:
            return gradient
        velocity = self.velocities[position]
        velocity = gradient.copy() if velocity is None else self.momentum * velocity + gradient
        self.velocities[position] = velocity
        return velocity


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): the running mean of gradients over the root of the running mean of their squares.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive.
        betas: how much of the running mean, and of that of the squares, a step keeps; at least 0 and below 1.
        epsilon: added to the root.

    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(parameters, learning_rate)
        for beta in betas:
            _checks.fraction("beta", beta)
        self.betas = betas
        self.epsilon = epsilon
        self.steps = [0] * len(self.parameters)
        self.means = [np.zeros_like(parameter._array) for parameter in self.parameters]
        self.squares = [np.zeros_like(parameter._array) for parameter in self.parameters]

    def direction(self, position: int, gradient: Array) -> Array:
        """The mean over the root of the squares' mean, both corrected for their start at zero."""
        first, second = self.betas
        self.steps[position] += 1
        self.means[position] = first * self.means[position] + (1 - first) * gradient
        self.squares[position] = second * self.squares[position] + (1 - second) * gradient**2
        mean = self.means[position] / (1 - first ** self.steps[position])
        square = self.squares[position] / (1 - second ** self.steps[position])
        return mean / (np.sqrt(square) + self.epsilon)
