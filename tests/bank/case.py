"""A case of the bank, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lecture_lib.debugging import Program, Spec

Make = Callable[[int], tuple[Program, Spec]]
CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    """One variant of a fault in one program.

    Attributes:
        row: of faults.csv or healthy.csv, such as 'L01' or 'K04'.
        variant: how it is written.
        base: 'digits', 'shapes', 'sequence', 'regression', or another for rows that need a program of their own.
        make: seed -> the program, made anew, and its spec.

    """

    row: str
    variant: str
    base: str
    make: Make

    @property
    def healthy(self) -> bool:
        """Whether nothing may be found."""
        return self.row.startswith("K")

    def __str__(self) -> str:
        return f"{self.row}-{self.variant}-{self.base}".replace(" ", "-")


def case(row: str, variant: str, *bases: str) -> Callable[[Callable[[str, int], tuple[Program, Spec]]], Make]:
    """Register a function (base, seed) -> (program, spec) for each of the bases."""

    def register(make: Callable[[str, int], tuple[Program, Spec]]) -> Make:
        for base in bases:
            CASES.append(Case(row, variant, base, lambda seed, base=base: make(base, seed)))
        return make

    return register
