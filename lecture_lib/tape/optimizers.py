"""Optimizers: from gradients to the next parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from . import errors
from .tensor import Array, Tensor


class Optimizer:
    """Parameters, and what is remembered for each of them between steps.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive; may be changed between steps.

    Raises:
        ValueError: no parameters, one given twice, or a rate that is not positive and finite.
        TypeError: something else than a leaf that requires gradients.

    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        if not self.parameters or len(set(map(id, self.parameters))) < len(self.parameters):
            raise ValueError(errors.PARAMETERS.format(count=len(self.parameters)))
        for parameter in self.parameters:
            if not (isinstance(parameter, Tensor) and parameter.requires_grad and parameter.is_leaf):
                raise TypeError(errors.PARAMETER.format(parameter=parameter))
        if not 0 < learning_rate < np.inf:
            raise ValueError(errors.LEARNING_RATE.format(rate=learning_rate))

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Change every parameter that has a gradient.

        Raises:
            RuntimeError: none has one.

        """
        rate = float(self.learning_rate)  # NumPy's own numbers would make float64 of float32
        changed = False
        for position, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                change = rate * self.direction(position, parameter.grad)
                parameter._replace(parameter._array - change, "optimizer.step()")
                changed = True
        if not changed:
            raise RuntimeError(errors.NO_GRADIENTS)

    def direction(self, position: int, gradient: Array) -> Array:
        """What is subtracted from parameter number `position`, for a learning rate of 1."""
        raise NotImplementedError


class SGD(Optimizer):
    """Gradient descent: v = momentum · v + gradient (at first the gradient), w = w - learning_rate · v.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive.
        momentum: 0 (none) up to below 1.

    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, momentum: float = 0.0) -> None:
        super().__init__(parameters, learning_rate)
        if not 0 <= momentum < 1:
            raise ValueError(errors.FRACTION.format(name="momentum", value=momentum))
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
    """Adam (Kingma and Ba, 2015): the running mean of gradients over the root of that of their squares.

    Args:
        parameters: leaves that require gradients, each once.
        learning_rate: positive.
        betas: how much of the running mean, and of that of the squares, stays in a step; 0 up to below 1.
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
            if not 0 <= beta < 1:
                raise ValueError(errors.FRACTION.format(name="beta", value=beta))
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
