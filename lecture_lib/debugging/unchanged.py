"""Try something out on a training program and leave it exactly as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..randomness import preserved_loader, preserved_random_streams
from ..training.preserve import preserved_modes


@contextmanager
def unchanged(model: nn.Module, optimizer: Optimizer, loader: object) -> Iterator[None]:
    """Put everything that a training step moves back, bit for bit, also after an exception.

    Parameters with their gradients and requires_grad, buffers, each module's mode, the optimizer's state and
    settings, the random streams, and the generators of a TensorLoader or DataLoader. Costs one copy of
    weights and state.
    """
    with (
        preserved_random_streams(),
        preserved_loader(loader),
        preserved_modes(model),
        _preserved_optimizer(optimizer),
        _preserved_tensors(model, optimizer),
    ):
        yield


@contextmanager
def _preserved_tensors(model: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    # The optimizer may also train what the model does not hold, such as a temperature inside the loss.
    optimised = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    parameters = list({id(parameter): parameter for parameter in [*model.parameters(), *optimised]}.values())
    settings = [(parameter, parameter.requires_grad, parameter.grad) for parameter in parameters]
    # The same names can hold other objects afterwards: forward may assign a new tensor to a buffer.
    registered = [(module._buffers, dict(module._buffers)) for module in model.modules()]
    values = [(tensor, tensor.detach().clone()) for tensor in [*parameters, *model.buffers()]]
    # Setting the gradients aside, instead of clearing them, keeps their values without a copy.
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for buffers, objects in registered:
            buffers.clear()
            buffers.update(objects)
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for parameter, requires_grad, gradient in settings:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient


@contextmanager
def _preserved_optimizer(optimizer: Optimizer) -> Iterator[None]:
    groups = [(group, {name: _keep(value) for name, value in group.items()}) for group in optimizer.param_groups]
    state = {
        parameter: {name: _keep(value) for name, value in entries.items()}
        for parameter, entries in optimizer.state.items()
    }
    try:
        yield
    finally:
        for group, settings in groups:
            group.clear()
            group.update({name: _give_back(kept) for name, kept in settings.items()})
        optimizer.state.clear()
        for parameter, entries in state.items():
            optimizer.state[parameter] = {name: _give_back(kept) for name, kept in entries.items()}


def _keep(value: Any) -> tuple[Any, Any]:
    """An object and its present content. Tensors and lists keep their identity: others may hold them too."""
    if isinstance(value, torch.Tensor):
        return value, value.detach().clone()
    if isinstance(value, list):
        return value, list(value)
    return None, copy.deepcopy(value)


def _give_back(kept: tuple[Any, Any]) -> Any:
    value, content = kept
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            value.copy_(content)
        return value
    if isinstance(value, list):
        value[:] = content
        return value
    return content
