"""Functions of PyTorch, NumPy, Python and the library that a student's code replaced: put back and named."""

from __future__ import annotations

import builtins
import contextlib
import math
import random
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.modules import module as torch_modules
from torch.optim import optimizer as torch_optimizers

_DESCRIPTORS = (staticmethod, classmethod, property)
_NAMESPACES: tuple[types.ModuleType, ...] = (
    builtins,
    math,
    random,
    time,
    np,
    np.linalg,
    torch,
    torch.nn,
    torch.nn.functional,
    torch.nn.init,
)
_NAMESPACES += (torch.nn.utils, torch.optim, torch.optim.lr_scheduler, torch.autograd, torch.amp, torch.utils.data)
_HOOKS = [
    value
    for owner in (torch_modules, torch_optimizers)
    for name, value in vars(owner).items()
    if name.startswith("_global_") and isinstance(value, dict)
]


_PYTORCH = str(Path(torch.__file__).parent)


def _is_wrapped_by_pytorch(current: Any, value: Any) -> bool:
    """Whether PyTorch wrapped a function itself, as it does with an optimizer's `step` when the first one is made."""
    code = getattr(current, "__code__", None)
    return getattr(current, "__wrapped__", None) is value and code is not None and code.co_filename.startswith(_PYTORCH)


class _Functions(NamedTuple):
    """The functions of a module or class as they were when they were noted."""

    owner: Any
    everything: dict[str, Any]

    def put_back(self) -> list[str]:
        """Put back those that were replaced, and return their names. What is new, or not a function, stays."""
        now = vars(self.owner)
        with contextlib.suppress(Exception):  # a value's own comparison may fail
            if now == self.everything:  # compares by identity first: 30 times quicker than the loop below
                return []
        where = self.owner.__name__
        if isinstance(self.owner, type):
            where = f"{self.owner.__module__}.{self.owner.__qualname__}"
        messages = []
        for name, value in list(self.everything.items()):
            current = now.get(name)
            if current is value or not (callable(value) or isinstance(value, _DESCRIPTORS)):
                continue
            if _is_wrapped_by_pytorch(current, value):
                self.everything[name] = current
                continue
            setattr(self.owner, name, value)
            messages.append(f"{where}.{name} was replaced")
        return messages


def _all_functions() -> list[_Functions]:
    """Of each module above and of the library's, and of PyTorch's and the library's classes in them."""
    library = [module for name, module in sys.modules.items() if name.split(".")[0] == "lecture_lib"]
    owners: dict[int, Any] = {}
    for module in (*_NAMESPACES, *library):
        owners[id(module)] = module
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__.split(".")[0] in ("torch", "lecture_lib"):
                owners[id(value)] = value
    functions = [_Functions(owner, dict(vars(owner))) for owner in owners.values()]
    for name in ("input", "exit", "quit"):  # of builtins; the kernel replaces or hides them while a cell runs
        functions[0].everything.pop(name, None)
    return functions


_originals: list[_Functions] = []


def remember_functions() -> None:
    """Note the functions as they are now, before a student's code runs; a later call changes nothing."""
    if not _originals:
        _originals.extend(_all_functions())


def put_back_functions() -> list[str]:
    """Put replaced functions of PyTorch, NumPy and the library back; returns what was replaced."""
    if not _originals:
        return []
    changes = [text for functions in _originals for text in functions.put_back()]
    for hooks in _HOOKS:
        if hooks:
            # Hooks on all modules, or on all optimizers, would run in every answer that follows.
            hooks.clear()
            changes.append("a hook on all modules was registered")
    while torch._C._len_torch_function_stack() > 0:
        torch._C._pop_torch_function_stack()
        changes.append("a torch function mode was left on")
    return changes
