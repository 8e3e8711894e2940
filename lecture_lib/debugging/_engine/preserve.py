"""Try something out on a whole program and leave it exactly as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from ..._common.randomness import loader_generators
from ...training._run.preserve import unchanged
from ..program import Program

LOADERS = ("train_loader", "val_loader", "test_loader", "plain_loader")


@contextmanager
def untouched(program: Program, seed: int | None = None) -> Iterator[Program]:
    """Put the program back, bit for bit, also after an exception.

    What `unchanged` covers, for all optimizers and loaders, and the schedule, the program's fields, and what modules
    keep in plain attributes.

    Args:
        program: what may be trained, changed and replaced inside.
        seed: where given, torch's stream and those of the loaders begin from it.

    """
    kept = {field.name: getattr(program, field.name) for field in fields(program)}
    attributes = [(module, _plain(module)) for module in program.model.modules()]
    schedule = copy.deepcopy(vars_of(program.scheduler))
    with ExitStack() as stack:
        # `unchanged` covers one optimizer and one loader at a time.
        for optimizer in program.optimizers:
            for name in LOADERS:
                stack.enter_context(unchanged(program.model, optimizer, kept[name]))
        if seed is not None:
            torch.manual_seed(seed)
            for name in LOADERS:
                for number, generator in enumerate(loader_generators(kept[name])):
                    generator.manual_seed(seed + number)
        try:
            yield program
        finally:
            for name, value in kept.items():
                setattr(program, name, value)
            for module, values in attributes:
                for name in set(_plain(module)) - set(values):
                    module.__dict__.pop(name, None)
                module.__dict__.update({name: value for name, (value, _) in values.items()})
                for value, content in values.values():
                    if isinstance(value, Tensor):
                        with torch.no_grad():
                            value.copy_(content)
            if program.scheduler is not None:
                vars(program.scheduler).update(schedule)


def vars_of(scheduler: Any) -> dict[str, Any]:
    """What a scheduler counts, without the optimizer that it belongs to."""
    if scheduler is None:
        return {}
    simple = (int, float, str, bool, list, tuple, dict, type(None))
    return {key: value for key, value in vars(scheduler).items() if isinstance(value, simple)}


def _plain(module: nn.Module) -> dict[str, tuple[Any, Any]]:
    """Attributes of a module that are neither registered nor private, with the content of tensors."""
    hidden = {"training"}
    return {
        name: (value, value.detach().clone() if isinstance(value, Tensor) else None)
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in hidden
    }
