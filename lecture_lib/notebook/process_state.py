"""What an answer can change in its process besides its result: put back after each observed part, and named.

Gradients that stay switched off, another default dtype or a replaced function of PyTorch would change the result of the
answers that follow. What is a habit rather than a mistake (drawing random numbers) is put back without a word.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .._common.randomness import preserved_random_streams
from .open_files import OpenFiles
from .replaced_functions import put_back_functions

MOST_TOLD = 8
"""How many changes are named; a program that changes more has one cause."""


class Setting(NamedTuple):
    """A switch of the process. `asks` is the expression that shows it, `standard` what observed code starts with.

    Without a standard (None) it stays as the caller has it and is only put back.
    """

    asks: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    standard: Any


_held: list[Any] = []


def _write_inference_mode(on: bool) -> None:
    """Switch inference mode; PyTorch undoes it when the object goes, so the last one is kept."""
    _held[:] = [torch.inference_mode(on)]
    _held[0].__enter__()


def _write_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _autocast(device: str) -> Setting:
    return Setting(
        f"torch.is_autocast_enabled({device!r})",
        lambda: torch.is_autocast_enabled(device),
        lambda on: torch.set_autocast_enabled(device, on),
        False,
    )


# Inference mode comes first: switching it switches gradients too, in either direction.
SETTINGS = (
    Setting(
        "torch.is_inference_mode_enabled()", lambda: torch.is_inference_mode_enabled(), _write_inference_mode, False
    ),
    Setting("torch.is_grad_enabled()", torch.is_grad_enabled, torch._C._set_grad_enabled, True),
    Setting("torch.get_default_dtype()", torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    Setting(
        "torch.get_default_device()",
        lambda: str(torch.get_default_device()),
        lambda device: torch.set_default_device(None if device == "cpu" else device),
        "cpu",
    ),
    _autocast("cpu"),
    _autocast("cuda"),
    Setting("torch.is_anomaly_enabled()", torch.is_anomaly_enabled, torch.set_anomaly_enabled, False),
    Setting(
        "torch.are_deterministic_algorithms_enabled()",
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _write_deterministic,
        (False, False),
    ),
    Setting(
        "torch.get_float32_matmul_precision()",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        torch.get_float32_matmul_precision(),
    ),
    Setting("torch.get_num_threads()", torch.get_num_threads, torch.set_num_threads, None),
    Setting("numpy.geterr()", np.geterr, lambda modes: np.seterr(**modes), np.geterr()),
    Setting("gc.isenabled()", gc.isenabled, lambda on: gc.enable() if on else gc.disable(), True),
    Setting("sys.getrecursionlimit()", sys.getrecursionlimit, sys.setrecursionlimit, sys.getrecursionlimit()),
)


@contextlib.contextmanager
def standard_process(left: list[str], seed: int = 0) -> Iterator[None]:
    """Run a piece of code with the standard settings and put everything back afterwards.

    `left` receives a sentence part for each setting that the code left changed, such as
    `torch.is_grad_enabled() is False`. Random streams start from `seed` inside and go on as before outside.
    """
    before, nesting = [setting.read() for setting in SETTINGS], _autocast_nesting()
    wanted = [
        current if setting.standard is None else setting.standard
        for setting, current in zip(SETTINGS, before, strict=True)
    ]
    _set(wanted)
    places, files = _Places(), OpenFiles()
    with preserved_random_streams(), warnings.catch_warnings():
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which takes 0.2 ms to ask for other devices
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            # First to what the code started with, which shows what it changed; then to what the caller had.
            left += [*_set(wanted), *places.put_back(), *files.put_back()]
            _leave_autocast(nesting)
            _set(before)


def reset_process() -> list[str]:
    """Give every setting its standard value and put replaced functions back. Returns what was changed, in words."""
    changes = [*_set([setting.standard for setting in SETTINGS]), *put_back_functions()]
    _leave_autocast(0)
    return changes


def _autocast_nesting() -> int:
    """How many autocast regions are entered; only from outside of all does PyTorch forget the weights it has cast."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _leave_autocast(nesting: int) -> None:
    """Leave the regions beyond `nesting`, and forget weights that were cast in them: later steps would not be seen."""
    entered = _autocast_nesting()
    for _ in range(entered - nesting):
        torch.autocast_decrement_nesting()
    if entered > nesting:
        torch.clear_autocast_cache()


def _set(wanted: list[Any]) -> list[str]:
    """Set every setting; returns the expressions of those that had another value, with that value."""
    changes = []
    for setting, value in zip(SETTINGS, wanted, strict=True):
        current = setting.read()
        if value is not None and current != value:
            setting.write(value)
            changes.append(f"{setting.asks} is {current if not isinstance(current, tuple) else current[0]}")
    return changes


class _Places:
    """The working folder, the environment and the module search path, which have no standard value."""

    def __init__(self) -> None:
        self._folder, self._environment, self._path = os.getcwd(), dict(os.environ), list(sys.path)  # noqa: PTH109

    def put_back(self) -> list[str]:
        """Put them back; returns what was changed."""
        changes = []
        if os.getcwd() != self._folder:  # noqa: PTH109
            os.chdir(self._folder)
            changes.append("the working folder is another one")
        changed = [name for name, value in self._environment.items() if os.environ.get(name) != value]
        for name in changed:  # what is new stays: libraries set variables of their own
            os.environ[name] = self._environment[name]
            changes.append(f"os.environ[{name!r}] is changed")
        if sys.path != self._path:
            sys.path[:] = self._path
            changes.append("sys.path is changed")
        return changes


def told_left(left: Sequence[str]) -> str:
    """A sentence about what code left changed; empty where nothing was."""
    if not left:
        return ""
    rest = f", and {len(left) - MOST_TOLD} more" if len(left) > MOST_TOLD else ""
    return (
        f"Your code changed the process and did not change it back: {'; '.join(left[:MOST_TOLD])}{rest}. "
        "That was undone here, so that it affects no other answer."
    )
