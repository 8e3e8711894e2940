"""Look at a model without leaving a trace: modes and random streams are put back, also after an exception."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
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


@contextmanager
def preserved_random_streams() -> Iterator[None]:
    """Put the random streams of torch (CPU and CUDA), NumPy and Python back."""
    streams = torch.get_rng_state(), np.random.get_state(), random.getstate()
    # Asking CUDA for its state would start it, which costs seconds and forbids a later fork.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        torch.set_rng_state(streams[0])
        np.random.set_state(streams[1])
        random.setstate(streams[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
