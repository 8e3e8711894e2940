"""Random streams, left as they were found: those of the process, and those that a loader draws its order from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def preserved_random_streams() -> Iterator[None]:
    """Put the random streams of torch (CPU and CUDA), NumPy and Python back, also after an exception."""
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


def loader_generators(loader: object) -> list[torch.Generator]:
    """The generators that a TensorLoader or DataLoader draws its order from, each once; a share has its loader's."""
    loader = getattr(loader, "loader", loader)
    batch_sampler = getattr(loader, "batch_sampler", None)
    owners = [loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]
    generators = [getattr(owner, "generator", None) for owner in owners]
    return list({id(stream): stream for stream in generators if isinstance(stream, torch.Generator)}.values())


@contextmanager
def preserved_loader(loader: object) -> Iterator[None]:
    """Put a loader's own generators back: its order is drawn from them when an epoch begins."""
    states = [(generator, generator.get_state()) for generator in loader_generators(loader)]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)
