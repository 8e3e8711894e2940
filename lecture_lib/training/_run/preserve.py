"""Restores what a trial, an evaluation or a refused run changes, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..._common.randomness import preserved_loader, preserved_random_streams
from .checks import optimised_parameters
from .snapshot import Snapshot, state_of


def enter_train_mode(model: nn.Module) -> None:
    """Put the model into train mode, except for modules that were deliberately frozen.

    A module in eval mode inside a model in train mode is deliberate, such as a frozen batch normalisation. A model that
    is in eval mode as a whole was only being evaluated.
    """
    if not model.training:
        model.train()


def module_modes(model: nn.Module) -> dict[nn.Module, bool]:
    """Each module's own training flag."""
    return {module: module.training for module in model.modules()}


def set_modes(modes: dict[nn.Module, bool]) -> None:
    """Put each module's own training flag back; `model.train()` would also switch on the frozen ones."""
    for module, training in modes.items():
        module.training = training


@contextmanager
def preserved_modes(model: nn.Module) -> Iterator[None]:
    """Put each module's own training flag back afterwards."""
    modes = module_modes(model)
    try:
        yield
    finally:
        set_modes(modes)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In eval mode and without a graph; modes and random streams are put back."""
    # no_grad, not inference_mode: a tensor that the model caches here can still take part in training.
    with preserved_random_streams(), preserved_modes(model), torch.no_grad():
        model.eval()
        yield


@contextmanager
def settings_of_a_refused_run(optimizer: Optimizer) -> Iterator[None]:
    """Put the optimizer's rates and other settings back when an exception ends a run before its first step.

    A schedule sets its first rate as soon as it is made. Without this, a second attempt without a schedule would start
    at that rate.
    """
    before = [
        {name: value.clone() if isinstance(value, Tensor) else value for name, value in group.items()}
        for group in optimizer.param_groups
    ]
    if not isinstance(optimizer, Optimizer):  # it has the shape of one, and no hooks
        yield
        return
    # Once is enough: a list with an entry for each step would grow with the run.
    stepped: list[bool] = []
    hook = optimizer.register_step_post_hook(lambda *_: stepped.append(True) if not stepped else None)
    try:
        yield
    except BaseException:
        if not stepped:
            for group, settings in zip(optimizer.param_groups, before, strict=True):
                settings["params"] = group["params"]
                group.clear()
                group.update(settings)
        raise
    finally:
        hook.remove()


@contextmanager
def unchanged(model: nn.Module, optimizer: Optimizer, loader: object) -> Iterator[None]:
    """Restore everything that a training step changes, bit for bit, also after an exception.

    Parameters with their gradients and requires_grad, buffers, each module's mode, the optimizer's state and
    settings, the random streams, and the generators of a TensorLoader or DataLoader. Costs one copy of
    weights and state.
    """
    with (
        preserved_random_streams(),
        preserved_loader(loader),
        preserved_modes(model),
        _preserved_tensors(model, optimizer),
    ):
        yield


@contextmanager
def _preserved_tensors(model: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    # The optimizer may also train what the model does not hold, such as a temperature inside the loss.
    both = [*model.parameters(), *optimised_parameters(optimizer)]
    parameters = list({id(parameter): parameter for parameter in both}.values())
    settings = [(parameter, parameter.requires_grad, parameter.grad) for parameter in parameters]
    buffers = {f"buffers of {name}": module._buffers for name, module in model.named_modules()}
    before = Snapshot({"weights": dict(enumerate(parameters)), **buffers, **state_of(optimizer)})
    # Setting the gradients aside, instead of clearing them, keeps their values without a copy.
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        before.restore()
        for parameter, requires_grad, gradient in settings:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient
