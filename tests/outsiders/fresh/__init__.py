"""Faulty programs and their repaired twins, by authors who knew what a `Program` is and no rule of the ladder.

A module each: its docstring says what the fault is, `PART` names the one or two parts in which it lies, `make` gives
the faulty program of a seed and `twin` the same one put right.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lecture_lib.debugging import Program, Spec

Make = Callable[[int], tuple[Program, Spec]]


@dataclass(frozen=True)
class Pair:
    """A faulty program and its twin.

    Attributes:
        name: author and file, such as 'a/01_shard_order'.
        parts: those in which the fault lies.
        make, twin: seed -> a new program and its spec.

    """

    name: str
    parts: tuple[str, ...]
    make: Make
    twin: Make


def all_pairs() -> list[Pair]:
    """Every program of this folder, by name."""
    here = Path(__file__).parent
    found = []
    for path in sorted(here.glob("[a-z]/[0-9]*.py")):
        module = importlib.import_module(f"{__name__}.{path.parent.name}.{path.stem}")
        parts = (module.PART,) if isinstance(module.PART, str) else tuple(module.PART)
        found.append(Pair(f"{path.parent.name}/{path.stem}", parts, module.make, module.twin))
    return found
