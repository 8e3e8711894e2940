"""Where the programs are listed."""

from __future__ import annotations

from collections.abc import Callable

from lecture_lib.debugging import Program, Spec

Make = Callable[[int], tuple[Program, Spec]]
CASES: list[tuple[str, str, Make]] = []


def case(row: str, name: str) -> Callable[[Make], Make]:
    """List a program: its row in the table of faults or of healthy programs, and what it is.

    Healthy programs that others are made from have no row, and are "sound".
    """

    def keep(make: Make) -> Make:
        CASES.append((row, name, make))
        return make

    return keep
