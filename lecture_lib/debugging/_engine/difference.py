"""A part of a program that is not what the reference part is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A part that is not what the reference part is.

    Attributes:
        part: one of PARTS.
        what: what differs, in words with numbers.

    """

    part: str
    what: str

    def __str__(self) -> str:
        return f"{self.part}: {self.what}"
