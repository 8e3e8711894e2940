"""One seed for everything that draws at random in a run."""

from __future__ import annotations

import os
import random
from numbers import Integral

import numpy as np
import torch

LARGEST = 2**32 - 1  # NumPy's global stream takes no more


def set_seed(seed: int, *, deterministic: bool = False) -> torch.Generator:
    """Seed Python's, NumPy's and torch's random streams, CUDA's included, and give a generator for loaders.

    Nothing else in the library reseeds anything: call it once, at the top of a program.

    A DataLoader draws its order, and the seeds of its workers, from its own generator: pass the returned one, and the
    order depends on the seed alone, whatever the model draws. From that, torch seeds its own, Python's and NumPy's
    streams in each worker, other ones in each epoch.
    Source: lecture part 6, reproducibility; https://pytorch.org/docs/stable/notes/randomness.html.

    Args:
        seed: 0 to 2**32 - 1.
        deterministic: also choose algorithms on the GPU that give the same bits each time, at up to twice the time;
            operations that have none raise a RuntimeError.

    Returns:
        A generator with that seed, for `DataLoader(..., generator=...)`.

    Raises:
        TypeError: the seed is not a whole number.
        ValueError: it is out of range.

    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"seed is {seed!r}, of type {type(seed).__name__}; pass a whole number, such as 0.")
    if not 0 <= seed <= LARGEST:
        raise ValueError(f"seed is {seed}; pass a whole number from 0 to {LARGEST} (2**32 - 1).")
    seed = int(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # CUDA's generators too, once CUDA starts
    if deterministic:
        # cuBLAS reads it when CUDA starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)
    return torch.Generator().manual_seed(seed)
