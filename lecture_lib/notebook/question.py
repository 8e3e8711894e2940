"""The public half of a graded question: what is asked, its visible cases, and what its known mistakes look like.

The hidden half (other inputs, the judge, the bank of answers) stays with the instructor and refers to this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Functions = Mapping[str, Callable[..., Any]]
"""The student's functions by the names that the question gives them."""

Inputs = Mapping[str, Any]
"""Plain data: numbers, text, NumPy arrays, and lists and dicts of these."""


@dataclass(frozen=True)
class Misconception:
    """A known way to get a question wrong, in words for the student."""

    what: str
    """What happened, as a full sentence."""
    look_at: str
    """What to look at next; never the solution."""


@dataclass(frozen=True)
class PublicCase:
    """One visible case: inputs, and what each part of the question should give for them.

    `expected` maps part -> field -> value. `mistakes` maps a misconception's id to the fields in which it shows,
    in the same form, so that a wrong result is recognised by its numbers; a second form of it is named "id/2".
    """

    name: str
    inputs: Inputs
    expected: Mapping[str, Mapping[str, Any]]
    mistakes: Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class PublicQuestion:
    """What is asked and how a student's functions are observed on one case.

    `parts` maps a part's name to a function of the student's functions and a case's inputs that returns what happened,
    field by field. The same observation serves the visible check and the hidden one, on other inputs. `cases`,
    `practice` and `misconceptions` are read from the JSON file beside the question, which is written when the course is
    built. `practice` are cases drawn like the hidden ones, which the check tries once its own cases are right.
    `heading` and `told` say what a check that agrees has seen, of the question and of a part, where "right" and "exact"
    would say too much. `ready_made` names functions ("module.name") that do what the question asks to be written.
    `look_at` says what to look at where no known mistake explains a wrong value; default: the inputs of the case.
    `repeatable` names functions that give the same result when they are called again with the same arguments: they are
    called twice, and the second result counts. `may_overwrite` names functions that may change their arguments, or
    whose parts say themselves what that costs; what any other one changes costs all parts that call it.
    """

    id: str
    title: str
    functions: tuple[str, ...]
    parts: Mapping[str, Callable[[Functions, Inputs], dict[str, Any]]]
    cases: tuple[PublicCase, ...] = ()
    practice: tuple[PublicCase, ...] = ()
    misconceptions: Mapping[str, Misconception] = field(default_factory=dict)
    ready_made: tuple[str, ...] = ()
    relative_tolerance: float = 1e-6
    look_at: str = ""
    heading: str = ""
    told: Mapping[str, str] = field(default_factory=dict)
    repeatable: tuple[str, ...] = ()
    may_overwrite: tuple[str, ...] = ()
