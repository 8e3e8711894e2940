"""A question that is not the same in every course: the course's secret chooses one of its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .description import Description


@dataclass(frozen=True)
class Variant:
    """One form of a question: how it is judged, what its answer cell holds when released, and what solves it.

    `about` tells the instructor what the variant holds. `words` differ from variant to variant in the bank's answers,
    where {{NAME}} stands for them. All variants of a question have the same visible cases and the same parts with the
    same points. A description's file that has `VARIANTS` describes the first of them as `QUESTION`; the notebook in the
    repository holds that one.
    """

    name: str
    description: Description
    stub: str
    solution: str
    words: Mapping[str, str]
    about: str
