"""The texts of a fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault that programs have.

    Attributes:
        rung: of the ladder that shows it, 1 to 7.
        title: its name.
        meaning: what happens in such a program.
        remedy: what to do.

    """

    rung: int
    title: str
    meaning: str
    remedy: str
