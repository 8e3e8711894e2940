"""Random streams as plain data: what a resumed run draws is what the run would have drawn."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import torch

from ..._common.randomness import loader_generators


def random_streams() -> dict[str, Any]:
    """The states of torch (CPU, and CUDA once it is in use), NumPy's global stream and Python's."""
    name, keys, position, has_gauss, gauss = cast(tuple[Any, ...], np.random.get_state())
    version, internal, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        # Asking CUDA for its state would start it, which costs seconds and forbids a later fork.
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        # A checkpoint holds tensors, and torch supports uint32 only in part.
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(gauss)],
        "python": [version, list(internal), gauss_next],
    }


def restore_random_streams(state: dict[str, Any]) -> None:
    """Put them back."""
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))


def loader_streams(loader: object) -> list[torch.Tensor]:
    """The states of a loader's own generators."""
    return [generator.get_state() for generator in loader_generators(loader)]


def restore_loader_streams(loader: object, states: list[torch.Tensor]) -> None:
    """Put them back.

    Raises:
        ValueError: the loader has another number of generators.

    """
    generators = loader_generators(loader)
    if len(generators) != len(states):
        raise ValueError(
            f"the checkpoint has the state of {len(states)} generator(s) of the loader, this loader has "
            f"{len(generators)}. Make the loader as in the run that is resumed, with the same generator= or seed=."
        )
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
