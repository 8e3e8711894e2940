"""What is refused: a run that cannot work, before it costs time, and a step that would ruin the weights."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau


def require_trainable(model: nn.Module, optimizer: Optimizer) -> None:
    """Raises ValueError when no step of this optimizer could change this model."""
    trainable = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    if not trainable:
        raise ValueError(
            "the model has no trainable parameters. Register them (nn.Parameter, nn.ModuleList), and set "
            "requires_grad=True on those that are to learn."
        )
    optimised = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if trainable.isdisjoint(map(id, optimised)):
        raise ValueError(
            f"none of the optimizer's {len(optimised)} parameter tensor(s) is one of the model's "
            f"{len(trainable)} trainable ones: it was made for another model. Make it after the model, from "
            "model.parameters()."
        )


def require_batches(loader: Iterable[Any], name: str) -> None:
    """Raises ValueError when the loader is known to be empty or can be read only once."""
    # Not `iter(loader) is loader`: a DataLoader's iter() draws from the ambient random stream.
    if isinstance(loader, Iterator):
        raise ValueError(f"{name} is an iterator, used up after one epoch. Pass a loader or a list of batches.")
    if count_batches(loader) == 0:
        raise ValueError(f"{name} has 0 batches. Look at the split, at batch_size and at drop_last.")


def count_batches(loader: Iterable[Any]) -> int | None:
    """The number of batches in an epoch, or None when the loader does not know it."""
    # Asked, not looked up: every DataLoader has __len__, and with an iterable data set it raises.
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_schedule(schedule: Callable[..., Any] | None) -> None:
    """Raises TypeError for a scheduler that is made already, for a number of steps that train cannot know."""
    if schedule is not None and not callable(schedule):
        raise TypeError(
            f"schedule is a {type(schedule).__name__}; train makes it itself, for its number of steps. Pass "
            "a function: schedule=lambda optimizer, total_steps: OneCycleLR(optimizer, max_lr=1e-2, "
            "total_steps=total_steps)"
        )


def require_scheduler(made: object) -> LRScheduler:
    """What a schedule made. Raises TypeError when it is no scheduler, or one that cannot step after a batch."""
    if isinstance(made, ReduceLROnPlateau):
        raise TypeError(
            "schedule made a ReduceLROnPlateau, which waits for a validation loss; train steps every batch."
        )
    if not isinstance(made, LRScheduler):
        raise TypeError(f"schedule returned {type(made).__name__}; train needs the scheduler. Is a `return` missing?")
    return made


def require_mean_loss(loss_fn: object) -> None:
    """Raises TypeError or ValueError for a loss that is not called yet, or that is not the batch's mean."""
    if isinstance(loss_fn, type):
        raise TypeError(f"loss_fn is the class {loss_fn.__name__}. Make one: {loss_fn.__name__}()")
    reduction = getattr(loss_fn, "reduction", "mean")
    if reduction not in ("mean", "batchmean"):
        raise ValueError(
            f"loss_fn has reduction={reduction!r}; a step must not grow with the batch, so the recipe "
            "takes its mean. Use reduction='mean'."
        )


def require_finite_loss(loss: Tensor, epoch: int, step: int, learning_rate: float) -> float:
    """The loss as a number. Raises FloatingPointError, before backward, when it is NaN or infinite."""
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(
            f"epoch {epoch}, step {step}, learning rate {learning_rate:g}: the loss is {value}. The weights "
            "are those before this step. Look for NaN in this batch's inputs; else lower the rate (find_lr "
            "shows its range)."
        )
    return value


def require_finite_gradients(model: nn.Module, epoch: int, step: int, learning_rate: float) -> None:
    """Raises FloatingPointError, before the step, when a gradient is NaN or infinite."""
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    # The largest magnitude, not the 2-norm: squares of large finite gradients overflow.
    finite = {
        name: torch.linalg.vector_norm(gradient, math.inf).isfinite()
        for name, gradient in gradients.items()
        if gradient is not None
    }
    # One question to the device for all gradients: a GPU's queue stops at each answer that is waited for.
    if finite and not torch.stack(list(finite.values())).all():
        name = next(name for name, is_finite in finite.items() if not is_finite)
        raise FloatingPointError(
            f"epoch {epoch}, step {step}, learning rate {learning_rate:g}: the loss is finite and the "
            f"gradient of {name} is not. The weights are those before this step. Look for sqrt, log or a "
            "division at 0 in the model or loss."
        )
