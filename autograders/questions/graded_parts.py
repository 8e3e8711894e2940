"""What a description is made of: graded parts, known mistakes, and functions that say what is observed on a case."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree
from lecture_lib.notebook.misconceptions import Fields

from ..course import CourseError
from .cases import Case

Simulation = Callable[[Case], Mapping[str, Any]]
"""What is observed on a case, "part.field" -> value. A mistake's says only the fields that it changes."""


class DescriptionError(CourseError):
    """A description contradicts itself. The message names the question and the remedy."""


def given(fields: Mapping[str, Callable[..., Any]]) -> Simulation:
    """A simulation from a function for each field, called with the case's inputs by name."""
    return lambda case: {path: function(**case.inputs) for path, function in fields.items()}


@dataclass(frozen=True)
class Graded:
    """Points for fields that agree with the reference on every hidden case of some kinds.

    `fields` are written "part.field". `on` names kinds of cases (default: all). An answer that is right on all of these
    and wrong on cases that were added from the domain loses the first part with the field (`charged_beyond`).
    `unless` names mistakes that earn nothing here although they give the right values. `forgives` names mistakes that
    another part charges: values that one of them explains count as right here. `needs` names another graded part that
    must have points, and `after` says how many of the parts before it must.
    """

    name: str
    points: float
    fields: tuple[str, ...]
    on: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    forgives: tuple[str, ...] = ()
    needs: str = ""
    after: int = 0

    def counts(self, case: Case) -> bool:
        """Whether a case is of a kind that decides about this part."""
        return not self.on or case.kind in self.on


@dataclass(frozen=True)
class Mistake:
    """A known way to get the question wrong: its words for the student, and what it gives on any case.

    `also` are other forms in which it shows: it explains what was observed when any form does.
    `unpublished` keeps its words and values from the visible check: they would say what students are to find.
    `hidden_only` says that the visible cases are too few to show it. `constant` names fields that have the same value
    on every hidden case where they have one, whichever that is; such a mistake needs no simulation.
    """

    id: str
    what: str
    look_at: str
    simulate: Simulation = lambda case: {}
    hidden_only: bool = False
    unpublished: bool = False
    constant: tuple[str, ...] = ()
    also: tuple[Simulation, ...] = ()

    def forms(self) -> dict[str, Simulation]:
        """Each simulation by a name of its own: the mistake's id, and the id with a number for each further form.

        What divides by zero in a student's answer does so here, without a warning.
        """
        named = {self.id: self.simulate} | {f"{self.id}/{n}": form for n, form in enumerate(self.also, 2)}
        return {name: np.errstate(all="ignore")(form) for name, form in named.items()}


def charged_beyond(parts: Sequence[Graded], reason: Callable[[Graded, str], str]) -> Iterator[tuple[Graded, str]]:
    """What an answer without any other loss is charged for cases of no kind that a part names: part and reason.

    `reason` says why a field of a part is wrong on the added cases, or "". Each such field costs one part.
    """
    charged: set[str] = set()
    for part in parts:
        why = next(filter(None, (reason(part, path) for path in part.fields if path not in charged)), "")
        if why:
            charged.update(part.fields)
            yield part, why


def split(path: str) -> tuple[str, str]:
    """The part and the field of "part.field"."""
    part, _, name = path.partition(".")
    return part, name


def nested(fields: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`"part.field" -> value` as part -> field -> value."""
    parts: dict[str, dict[str, Any]] = {}
    for path, value in fields.items():
        part, name = split(path)
        parts.setdefault(part, {})[name] = value
    return parts


def changed_fields(fields: Mapping[str, Any], expected: Fields, tolerance: float) -> dict[str, dict[str, Any]]:
    """The fields of a simulation that differ from what is right."""
    return {
        part: changed
        for part, values in nested(fields).items()
        if (
            changed := {
                name: value for name, value in values.items() if not agree(value, expected[part][name], tolerance)
            }
        )
    }


def frozen(value: Any) -> Hashable:
    """Plain data as something that is equal for equal values, NaN included."""
    if isinstance(value, Mapping):
        return tuple((name, frozen(value[name])) for name in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    # By its text: NaN is not equal to itself.
    return repr(value)
