"""Training programs with one known fault each, and healthy ones that look suspicious: what the ladder is tested on."""

from __future__ import annotations

import importlib
import pkgutil

from .case import CASES, Case


def all_cases() -> list[Case]:
    """Every case of every module, in the order of their rows."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(CASES, key=lambda one: (one.healthy, one.row, one.variant, one.base))
