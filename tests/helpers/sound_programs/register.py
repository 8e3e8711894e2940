"""Where the programs are listed."""

from __future__ import annotations

from collections.abc import Callable

from lecture_lib.debugging import Program, Spec

Make = Callable[[], tuple[Program, Spec]]
CASES: dict[str, tuple[Make, tuple[str, ...]]] = {}


def sound(name: str, *not_asked: str) -> Callable[[Make], Make]:
    """List a program: what it is, and pieces of the reasons for which rules say that they could not be asked."""

    def keep(make: Make) -> Make:
        CASES[name] = (make, not_asked)
        return make

    return keep
