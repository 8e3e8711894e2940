"""The heart of the recipe: what happens in one optimizer step, in this order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .batches import LossFunction, forward
from .checks import optimised_parameters
from .clipping import Groups, global_norm, gradients_by_device, shorten
from .finite import FiniteGuard, Moment, NonFiniteError, all_finite
from .initialisation import gradient_norms
from .losses import mean_loss, no_loss
from .precision import Precision
from .processes import ALONE, Processes
from .windows import Window


@dataclass
class Recipe:
    """How a window of micro-batches becomes one step.

    Attributes:
        model, loss_fn, optimizer, device: as in `train`.
        precision: casts the forward pass, and scales the loss where gradients would underflow.
        guard: keeps what is not finite from the weights.
        max_norm: of the gradient, or None.
        non_finite: whether to raise or to skip the step.
        gradient_norms: whether each layer's norm is wanted.
        check_gradients: whether gradients are looked at before the step; else only losses are.
        processes: that take the step together, each with its share of the window.

    """

    model: nn.Module
    loss_fn: LossFunction
    optimizer: Optimizer
    device: torch.device
    precision: Precision
    guard: FiniteGuard
    max_norm: float | None
    non_finite: Literal["raise", "skip"]
    gradient_norms: bool = False
    check_gradients: bool = True
    processes: Processes = ALONE

    def __post_init__(self) -> None:
        self.replica = self.processes.replicate(self.model)
        self.optimised = optimised_parameters(self.optimizer)
        self.parameters = list({id(one): one for one in (*self.optimised, *self.model.parameters())}.values())
        self._forget_gradients()

    def learn(self, window: Window, moment: Moment, norms: dict[str, float]) -> tuple[Tensor | float, bool]:
        """One step.

        Args:
            window: what to learn from.
            moment: for messages.
            norms: each layer's gradient norm, before clipping, is added here if they are wanted and the step is taken.

        Returns:
            The sum of the window's losses (each mean loss times its count), and whether the step was taken.

        Raises:
            FloatingPointError: something is not finite, and that is to raise.

        """
        try:
            return self._learn(window, moment, norms)
        except BaseException:
            self._forget_gradients()
            raise

    def _learn(self, window: Window, moment: Moment, norms: dict[str, float]) -> tuple[Tensor | float, bool]:
        total: Tensor | float = 0.0
        refused: NonFiniteError | None = None
        for number, (batch, weight, count) in enumerate(window, 1):
            batch = batch.to(self.device)
            with self.processes.exchange(self.replica, number == len(window.batches)):
                with self.precision.autocast():
                    outputs = forward(self.replica, batch)
                    loss = mean_loss(self.loss_fn, outputs, batch) if count else no_loss(outputs)
                if not self.guard.loss_is_finite(loss):
                    refused = self.guard.loss_error(loss, moment)
                    if self.processes.count == 1:
                        break
                self.precision.backward(loss if weight == 1 or not count else loss * weight)
            total = total + self._number(loss) * count
        refused = self._of_any_process(refused)
        if refused is not None:
            if self.non_finite == "raise":
                raise refused
            return 0.0, self._forget_gradients()
        self.precision.unscale(self.optimizer)
        by_layer = gradient_norms(self.model) if self.gradient_norms else {}
        if self.check_gradients or self.max_norm is not None:
            groups = gradients_by_device(self.optimised)
            norm = self._norm(groups)
            # A scaler looks itself, and takes a smaller scale: an overflow in FP16 is part of its search.
            if self.precision.scaler is None and not self.guard.gradients_are_finite(groups, norm):
                if self.non_finite == "raise":
                    raise self.guard.gradient_error(moment)
                return 0.0, self._forget_gradients()
            if self.max_norm is not None:
                shorten(groups, norm, self.max_norm)
        taken = self.precision.step(self.optimizer)
        for layer, of_layer in by_layer.items() if taken else ():
            norms[layer] = norms.get(layer, 0.0) + (of_layer or 0.0)
        self._forget_gradients()
        return total, taken

    def _of_any_process(self, refused: NonFiniteError | None) -> NonFiniteError | None:
        """Why the step is refused: what one process cannot take, none takes."""
        # A deferred guard agrees on the device.
        if self.processes.count == 1 or self.guard.deferred or not self.processes.any(refused is not None):
            return refused
        reasons = self.processes.gather(refused and (str(refused), refused.what, refused.value))
        rank, (text, what, value) = next((rank, reason) for rank, reason in enumerate(reasons) if reason)
        return NonFiniteError(f"process {rank}: {text}", what, value)

    def _norm(self, groups: Groups) -> Tensor | float:
        """The global norm of the gradients; on a GPU it stays there."""
        norm = global_norm(groups)
        if norm.device.type != "cpu":
            return norm
        if math.isinf(norm) and all_finite(groups.values()):  # the squares of large finite gradients overflow
            norm = global_norm({device: [one.double() for one in group] for device, group in groups.items()})
        return norm.item()

    def _number(self, loss: Tensor) -> Tensor | float:
        """For the history: a number where that costs no waiting."""
        return loss.detach().double() if self.device.type == "cuda" else loss.item()

    def _forget_gradients(self) -> bool:
        """All of them: those that the optimizer leaves alone would add up for ever."""
        for parameter in self.parameters:
            parameter.grad = None
        return False
