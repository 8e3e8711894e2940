"""Sound programs in the shapes that real ones have: nothing may be found in them, and no rule may break."""

from __future__ import annotations

import importlib
import pkgutil

from .register import CASES, Make

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES", "Make"]
