"""The training step: forward, loss and backward for each micro-batch; then unscale, clip, step, zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ._run.batches import forward
from ._run.guard import FiniteGuard
from ._run.losses import mean_loss
from ._run.terms import Terms
from .accumulation import Window
from .clipping import Gradients
from .precision import Precision
from .types import LossFunction


@dataclass
class TrainingStep:
    """How a window of micro-batches becomes one optimizer step.

    Attributes:
        model, loss_fn, optimizer, device: as in `train`.
        precision: casts the forward pass, and scales the loss where gradients would underflow.
        guard: refuses steps whose loss, gradient, buffers or update contain NaN or infinity, in all processes together.
        terms: counts the labels that each micro-batch's mean loss averages over.
        max_norm: largest global norm of the gradient, or None for no clipping.
        watch_gradients: called when the gradients are complete, before they are clipped.

    """

    model: nn.Module
    loss_fn: LossFunction
    optimizer: Optimizer
    device: torch.device
    precision: Precision
    guard: FiniteGuard
    terms: Terms
    max_norm: float | None = None
    watch_gradients: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        # The model itself; with several processes DistributedDataParallel around it.
        self.replica = self.guard.processes.replicate(self.model)
        self.optimised = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        # Also those that the optimizer does not update; otherwise their gradients would accumulate forever.
        self.parameters = list({id(p): p for p in (*self.optimised, *self.model.parameters())}.values())
        self.zero_gradients()

    def learn(self, window: Window, index: object = "") -> tuple[Tensor | float, bool]:
        """Take one step.

        Args:
            window: what to learn from.
            index: which step of the run this is, for messages.

        Returns:
            The sum of the window's losses (each mean loss times its count), and whether the step was taken. The sum
            means nothing where it was not.

        Raises:
            FloatingPointError: something is not finite, and the guard does not skip such steps.

        """
        loss_sum: Tensor | float = 0.0
        taken = False
        try:
            with self.guard.attempt(index):
                for micro_batch, weight, count in window:
                    batch = micro_batch.to(self.device)
                    # Several processes exchange their gradients once, with the last backward pass.
                    with self.guard.processes.exchange(self.replica, micro_batch is window.batches[-1]):
                        with self.precision.autocast():
                            outputs = forward(self.replica, batch)
                            loss = mean_loss(self.loss_fn, outputs, batch)
                        value = self.guard.check_loss(loss, outputs, batch)
                        # Weighted by their shares of the window, the gradients add up to those of one big batch.
                        self.precision.backward(loss if weight == 1 else loss * weight)
                    self.terms.verify(outputs, batch)
                    loss_sum = loss_sum + value * count
                self.guard.check_losses_and_buffers()
                # Clipping compares the gradient with max_norm, so FP16's scale goes first.
                self.precision.unscale(self.optimizer)
                gradients = Gradients(self.optimised)
                if self.watch_gradients is not None:
                    self.watch_gradients()
                self.guard.check_gradients(gradients)
                if self.max_norm is not None:
                    gradients.clip(self.max_norm)
                # optimizer.step(), unless the update would leave weights that are not finite.
                taken = self.guard.step(gradients)
        finally:
            self.zero_gradients()
        return loss_sum, taken

    def zero_gradients(self) -> None:
        """Forget all gradients; also what a step that was refused had gathered."""
        for parameter in self.parameters:
            parameter.grad = None
