"""Look at a model without leaving a trace: modes and random streams are put back, also after an exception."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def preserved_modes(model: nn.Module) -> Iterator[None]:
    """Put each module's own training flag back.

    `model.train()` afterwards would not do: it also switches on a module that was deliberately left in eval
    mode, such as a frozen batch normalisation.
    """
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


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
