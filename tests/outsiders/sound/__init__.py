"""Sound programs that look suspicious, by an author who knew what a `Program` is and no rule of the ladder.

A module each: its docstring says what is unusual in it and why it is right, and `make` gives the program of a seed.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from ..fresh import Make


def all_sound() -> dict[str, Make]:
    """Every program of this folder, by name."""
    paths = sorted(Path(__file__).parent.glob("[0-9]*.py"))
    return {path.stem: importlib.import_module(f"{__name__}.{path.stem}").make for path in paths}
