"""Undoes an update that would leave weights that are not finite."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

from ..precision import Precision
from .checks import optimised_parameters
from .snapshot import Snapshot, finite_on_device, state_of

# Far below what float32 and bfloat16 hold, 3e38: no rounding and no square of a gradient comes near it.
LARGEST_WEIGHT = 1e30
LARGEST_GRADIENT = 1e15
_WIDE = (torch.float32, torch.float64, torch.bfloat16)


class Updates:
    """Takes an optimizer's steps and undoes those that overflow.

    Undoing a step needs a copy of weights and state, which would cost time and memory at every step. So for SGD,
    Adam, AdamW, RMSprop and Adagrad a bound on the weights is kept, from the largest gradient so far, the rate and the
    weight decay. As long as it is far below what the format holds, no step can overflow, and nothing is copied or
    checked. A bound that has grown too large is measured anew from the weights. Where that does not help (a rate of
    1e30), and for other optimizers, a copy is made before each step, and the result is checked.

    Args:
        model: names the parameters in messages.
        optimizer: takes the steps.

    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._parameters = optimised_parameters(optimizer)
        names = {id(p): name for name, p in model.named_parameters()}
        self._names = [names.get(id(p), f"a parameter {list(p.shape)}") for p in self._parameters]
        # float16 ends at 65504, where no bound is of use; a subclass of a known optimizer may take other steps.
        wide = all(p.dtype in _WIDE for p in self._parameters)
        self._bounded = wide and type(optimizer) in (SGD, Adam, AdamW, RMSprop, Adagrad)
        self._weight = self._gradient = math.inf  # bounds so far; nothing was measured yet

    def step(self, precision: Precision, norm: float) -> tuple[bool, list[str]]:
        """One step of the optimizer, taken back when something becomes not finite.

        Args:
            precision: takes the step.
            norm: of the gradients.

        Returns:
            Whether the step was taken; the names of what it would have made not finite.

        """
        if self.harmless(norm):
            return precision.step(self._optimizer), []
        before = self._snapshot()
        taken = self._tried(precision, before)
        spoiled = ["a weight"] if taken is None else before.names_not_finite()
        if spoiled:
            before.restore()
        self._weight = math.inf  # to be measured again
        return bool(taken) and not spoiled, spoiled

    def step_on_device(self, precision: Precision) -> tuple[bool, Tensor | None]:
        """The same without waiting for the device; gradients above LARGEST_GRADIENT must be zero already.

        Returns:
            Whether the step was taken, and a flag on the device that it was not taken back (None: it could not be).

        """
        if self.harmless(LARGEST_GRADIENT):
            return precision.step(self._optimizer), None
        before = self._snapshot()
        taken = self._tried(precision, before)
        finite = torch.tensor(False) if taken is None else finite_on_device(before.tensors())
        before.restore_where(~finite)
        return bool(taken), finite

    def _tried(self, precision: Precision, before: Snapshot) -> bool | None:
        """Whether the step was taken; None for a rate that the weights' format does not hold, which torch refuses."""
        try:
            return precision.step(self._optimizer)
        except RuntimeError as error:
            before.restore()
            if "overflow" in str(error):
                return None
            raise

    def harmless(self, norm: float) -> bool:
        """Whether no step with a gradient of this norm can overflow; measures where the bound does not say so."""
        if not self._bounded or not norm <= LARGEST_GRADIENT:
            return False
        bound = self._bounds(norm)
        if bound is None:
            self._measure()
            bound = self._bounds(norm)
        if bound is None:
            return False
        self._weight, self._gradient = bound
        return True

    def _bounds(self, norm: float) -> tuple[float, float] | None:
        """The largest weight and gradient after the step; None when they are too large."""
        weight, gradient = self._weight, self._gradient
        for group in self._optimizer.param_groups:
            decay, rate = group["weight_decay"], float(group["lr"])
            # SGD and Adam add the decay to the gradient; for AdamW, which does not, the bound is only looser.
            largest = max(self._gradient, norm + decay * self._weight)
            # Within these limits |1 - rate · decay| is at most 1, so decay alone makes no weight larger.
            if not (decay >= 0 and 0 <= rate * decay <= 2):
                return None
            gradient, weight = max(gradient, largest), max(weight, self._weight + rate * _longest(group, largest))
        # A NaN compares as false.
        return (weight, gradient) if weight <= LARGEST_WEIGHT and gradient <= LARGEST_GRADIENT else None

    @torch.no_grad()
    def _measure(self) -> None:
        state = [value for entries in self._optimizer.state.values() for value in entries.values()]
        self._weight = _largest(self._parameters)
        # What a momentum has gathered counts as a gradient.
        self._gradient = _largest([value for value in state if isinstance(value, Tensor)])

    def _snapshot(self) -> Snapshot:
        weights: dict[Any, Any] = dict(zip(self._names, self._parameters, strict=True))
        return Snapshot({"": weights, **state_of(self._optimizer)})


def _longest(group: dict[str, Any], gradient: float) -> float:
    """How long a step divided by its rate can be in one weight, when no entry of a gradient was larger than this."""
    momentum = group.get("momentum", 0.0)
    if not 0 <= momentum < 1 or not 0 <= group.get("dampening", 0.0) <= 1:
        return math.inf
    series = 1 / (1 - momentum)  # of equal gradients
    if "eps" not in group:  # SGD
        return gradient * series
    eps = float(group["eps"])
    if "betas" in group:  # Adam: two averages of one sequence of gradients, by Cauchy and Schwarz
        first, second = map(float, group["betas"])
        share = (1 - second) * (1 - first**2 / second) if 0 <= first < 1 and 0 < second < 1 else 0.0
    else:  # of the square of the gradient that is divided, in what it is divided by; a sum in Adagrad
        share = 1 - group.get("alpha", 0.0)
    if not share > 0 or not eps > 1e-30 or group.get("centered"):
        return math.inf
    # Squares of gradients below 1e-18 underflow.
    return series * (1 / math.sqrt(share) + 1e-18 / eps)


def _largest(tensors: list[Any]) -> float:
    norms = [float(torch.linalg.vector_norm(tensor.float(), math.inf)) for tensor in tensors if tensor.numel()]
    return max(norms, default=0.0) if all(map(math.isfinite, norms)) else math.inf
