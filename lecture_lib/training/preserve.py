"""Look at a model without leaving a trace: modes and random streams are put back, also after an exception."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from .streams import loader_streams, restore_loader_streams


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


@contextmanager
def preserved_random_streams() -> Iterator[None]:
    """Put the random streams of torch (CPU and CUDA), NumPy and Python back."""
    # As they are: making plain data of them, as a checkpoint does, costs as much as a step of a small network.
    of_cpu, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(legacy=False), random.getstate()
    of_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        torch.set_rng_state(of_cpu)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
        if of_cuda:
            torch.cuda.set_rng_state_all(of_cuda)


@contextmanager
def preserved_loader(loader: object) -> Iterator[None]:
    """Put a loader's own generators back: its order is drawn from them when an epoch begins."""
    states = loader_streams(loader)
    try:
        yield
    finally:
        restore_loader_streams(loader, states)
