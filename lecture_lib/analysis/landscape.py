"""The loss around a trained model, along random directions that are as long as the model's own filters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from .._common.palette import BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Loss = Callable[[nn.Module], Tensor]


@dataclass(frozen=True)
class LossLandscape:
    """Losses along one direction, or on the plane of two.

    Attributes:
        steps: distances from the model along each direction, [P]; 1 is a direction as long as the weights themselves.
        losses: [P] along one direction, [P, P] for two (first direction: rows).
        normalised: whether each filter of a direction has the norm of the model's filter.

    """

    steps: np.ndarray
    losses: np.ndarray
    normalised: bool

    @property
    def sharpness(self) -> float:
        """The mean rise of the loss at the border over the loss of the model itself; a number in the loss's unit."""
        centre = len(self.steps) // 2
        if self.losses.ndim == 1:
            return float(self.losses[[0, -1]].mean() - self.losses[centre])
        border = np.concatenate([self.losses[0], self.losses[-1], self.losses[1:-1, 0], self.losses[1:-1, -1]])
        return float(border.mean() - self.losses[centre, centre])

    def plot(self) -> Figure:
        """A curve for one direction, contour lines for two; the model is in the middle."""
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
        unit = "in lengths of the weights" if self.normalised else "raw direction"
        if self.losses.ndim == 1:
            axis.plot(self.steps, self.losses, color=BLUE)
            axis.set(xlabel=f"step along a random direction ({unit})", ylabel="loss")
            axis.axvline(0, color=VERMILION, linestyle=":")
        else:
            lines = axis.contour(self.steps, self.steps, self.losses, levels=12, cmap="viridis")
            axis.clabel(lines, fontsize=8)
            axis.plot(0, 0, "x", color=VERMILION)
            axis.set(xlabel=f"second direction ({unit})", ylabel="first direction")
        return figure


def loss_landscape(
    model: nn.Module,
    loss: Loss,
    *,
    directions: int = 2,
    radius: float = 1.0,
    points: int = 21,
    normalise: bool = True,
    seed: int = 0,
) -> LossLandscape:
    """Compute the loss on a grid around the model's weights.

    Each direction is random. With `normalise` every filter of it (a row of a matrix, an output channel of a
    convolution) gets the norm of the model's filter, and biases and norms get 0. Without, a picture shows the *scale*
    of the weights rather than the shape of the loss: a ReLU network whose weights were multiplied by 10 in one layer
    and divided by 10 in the next computes the same, and its raw landscape looks far sharper or flatter.
    Two directions of thousands: a flat picture does not prove a flat minimum.
    Source: Li et al. 2018, arXiv:1712.09913.

    Args:
        model: stays as it is, also its buffers and mode; a copy is moved.
        loss: model -> a scalar, the same at every call: fixed data, no dropout (`model.eval()`).
        directions: 1 or 2.
        radius: largest step along a direction, above 0.
        points: steps along each direction, odd, so that the model itself is among them; at least 3.
        normalise: see above.
        seed: of the directions.

    Returns:
        The losses, with `plot()` and `sharpness`. A loss that is not finite is nan.

    Raises:
        ValueError: directions, radius or points are outside the ranges above, or the model has no weights with two
            axes.

    """
    if directions not in (1, 2) or not radius > 0 or points < 3 or points % 2 == 0:
        raise ValueError(
            f"directions={directions}, radius={radius}, points={points}: pass 1 or 2 directions, a radius above 0 and "
            "an odd number of points from 3."
        )
    moved = copy.deepcopy(model)
    parameters = [parameter for parameter in moved.parameters() if parameter.ndim > 1]
    if not parameters:
        raise ValueError("the model has no weights with two axes or more, so there is no direction to move along.")
    centre = [parameter.detach().clone() for parameter in parameters]
    generator = torch.Generator().manual_seed(seed)
    chosen = [[_direction(weight, generator, normalise) for weight in centre] for _ in range(directions)]
    steps = np.linspace(-radius, radius, points)
    losses = np.empty((points,) * directions)
    with torch.no_grad():
        for place in np.ndindex(losses.shape):
            for number, parameter in enumerate(parameters):
                offset = sum(
                    float(steps[step]) * direction[number] for step, direction in zip(place, chosen, strict=True)
                )
                parameter.copy_(centre[number] + offset)
            value = float(loss(moved))
            losses[place] = value if np.isfinite(value) else np.nan
    return LossLandscape(steps, losses, normalise)


def _direction(weight: Tensor, generator: torch.Generator, normalise: bool) -> Tensor:
    """A random direction; each filter as long as the weight's filter, or all of it left as drawn."""
    drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
    if not normalise:
        return drawn
    axes = tuple(range(1, weight.ndim))
    lengths = torch.linalg.vector_norm(drawn, dim=axes, keepdim=True)
    return drawn / lengths * torch.linalg.vector_norm(weight, dim=axes, keepdim=True)
