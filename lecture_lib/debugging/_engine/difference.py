"""A part of a program that is not what the reference part is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A part that is not what the reference part is: listed, and never an accusation.

    Attributes:
        part: one of PARTS.
        description: what differs, in words with numbers.
        fault: its name, should replacing the part help; None where there is none.

    """

    part: str
    description: str
    fault: str | None = None

    def __str__(self) -> str:
        return f"{self.part}: {self.description}"
