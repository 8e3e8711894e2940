"""A model's modes: entered for training, and put back, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def enter_train_mode(model: nn.Module) -> None:
    """Put the model into train mode, except for modules that were deliberately frozen.

    A module in eval mode inside a model in train mode is meant so, such as a frozen batch normalisation. A model that
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
