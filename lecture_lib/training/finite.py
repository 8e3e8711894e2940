"""A step that would ruin the weights is refused before it is taken."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .checks import optimised_parameters


def require_finite_loss(loss: Tensor, epoch: int, step: int, learning_rate: float) -> float:
    """The loss as a number.

    Raises:
        FloatingPointError: before backward, when the loss is NaN or infinite.

    """
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(
            f"epoch {epoch}, step {step}, learning rate {learning_rate:g}: the loss is {value}. The weights "
            "are those before this step. Look for NaN in this batch's inputs; else lower the rate (find_lr "
            "shows its range)."
        )
    return value


def require_finite_gradients(
    model: nn.Module, optimizer: Optimizer, epoch: int, step: int, learning_rate: float
) -> None:
    """Look at the gradients that the optimizer is about to use.

    Raises:
        FloatingPointError: before the step, when a gradient is NaN or infinite.

    """
    gradients = [(p, p.grad) for p in optimised_parameters(optimizer) if p.grad is not None]
    # The largest magnitude, not the 2-norm: squares of large finite gradients overflow.
    finite = [torch.linalg.vector_norm(gradient, math.inf).isfinite() for _, gradient in gradients]
    # One question to the device for all gradients: a GPU's queue stops at each answer that is waited for.
    if finite and not torch.stack(finite).all():
        culprit = next(parameter for (parameter, _), ok in zip(gradients, finite, strict=True) if not ok)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        name = names.get(id(culprit), f"a parameter {list(culprit.shape)} outside the model")
        raise FloatingPointError(
            f"epoch {epoch}, step {step}, learning rate {learning_rate:g}: the loss is finite and the "
            f"gradient of {name} is not. The weights are those before this step. Look for sqrt, log or a "
            "division at 0 in the model or loss."
        )
