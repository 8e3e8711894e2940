"""The form in which a question is described once: what it is worth, what is right, what goes wrong, what is drawn.

The visible check's cases, the judge and the texts of the misconceptions are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree, difference
from lecture_lib.notebook.misconceptions import Fields, explains
from lecture_lib.notebook.question import Misconception, PublicCase, PublicQuestion
from lecture_lib.notebook.questions import find_question

from ..course import CourseError
from .cases import Case, Observation, of_kind, read_field, without_values
from .verdict import Part, Verdict

Simulation = Callable[[Case], Mapping[str, Any]]
"""What is observed on a case, "part.field" -> value. A mistake's says only the fields that it changes."""


_MOST_DRAWS = 20
"""Sets that are drawn until every mistake shows on one."""
_MOST_KINDS = 12
"""Kinds of cases that a message lists."""


class DescriptionError(CourseError):
    """A description contradicts itself. The message names the question and the remedy."""


def given(fields: Mapping[str, Callable[..., Any]]) -> Simulation:
    """A simulation from a function for each field, called with the case's inputs by name."""
    return lambda case: {path: function(**case.inputs) for path, function in fields.items()}


@dataclass(frozen=True)
class Graded:
    """Points for fields that agree with the reference on every hidden case of some kinds.

    `fields` are written "part.field". `on` names kinds of cases (default: all). `unless` names mistakes that earn
    nothing here although they give the right values. `forgives` names mistakes that another part charges: values that
    one of them explains count as right here. `needs` names another graded part that must have points,
    and `after` says how many of the parts before it must.
    """

    name: str
    points: float
    fields: tuple[str, ...]
    on: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    forgives: tuple[str, ...] = ()
    needs: str = ""
    after: int = 0


@dataclass(frozen=True)
class Mistake:
    """A known way to get the question wrong: its words for the student, and what it gives on any case.

    `also` are other forms in which it shows: it explains what was observed when any form does.
    `hidden_only` says that the visible cases are too few to show it. `constant` names fields that have the same value
    on every hidden case where they have one, whichever that is; such a mistake needs no simulation.
    """

    id: str
    what: str
    look_at: str
    simulate: Simulation = lambda case: {}
    hidden_only: bool = False
    constant: tuple[str, ...] = ()
    also: tuple[Simulation, ...] = ()

    def forms(self) -> dict[str, Simulation]:
        """Each simulation by a name of its own: the mistake's id, and the id with a number for each further form."""
        return {self.id: self.simulate} | {f"{self.id}/{n}": form for n, form in enumerate(self.also, 2)}


@dataclass(frozen=True)
class Description:
    """One graded question.

    `visible` are the cases of the visible check, each with its name as the kind. `draw` gives the hidden cases of one
    set. `domain` gives any case within the question's wording: every right answer agrees with the reference there.
    `facts` turns an observation into what the reference says, where many results are right and a case's key decides.
    """

    id: str
    parts: tuple[Graded, ...]
    reference: Simulation
    mistakes: tuple[Mistake, ...]
    visible: tuple[Case, ...]
    draw: Callable[[np.random.Generator], list[Case]]
    domain: Callable[[np.random.Generator], Case]
    facts: Callable[[Case, Observation], Observation] = lambda case, observation: observation

    @property
    def points(self) -> dict[str, float]:
        """What each graded part is worth, by its name."""
        return {part.name: part.points for part in self.parts}

    def draw_set(self, rng: np.random.Generator) -> list[Case]:
        """The hidden cases of one set: `draw`, again until every mistake shows on them in each of its forms.

        Inputs can agree by chance, and a mistake that gives the right values on a whole set would earn full points.
        Raises DescriptionError, naming the mistake, when one shows on none of many sets.
        """
        for _ in range(_MOST_DRAWS):
            cases = self.draw(rng)
            unseen = self._unseen(cases)
            if unseen is None:
                return cases
        raise DescriptionError(
            f"{self.id}: the mistake {unseen} gives the right values on all hidden cases that were drawn "
            f"{_MOST_DRAWS} times: let `draw` give a case that shows it"
        )

    def _unseen(self, cases: Sequence[Case]) -> str | None:
        """A form of a mistake that gives nothing wrong in what is graded on these cases."""
        tolerance = find_question(self.id).relative_tolerance
        known = [(case, nested(self.reference(case)), self._graded(case)) for case in cases]
        forms = [form for mistake in self.mistakes if not mistake.constant for form in mistake.forms().items()]
        for name, simulate in forms:
            if not any(
                f"{part}.{field}" in graded
                for case, expected, graded in known
                for part, fields in _changed(simulate(case), expected, tolerance).items()
                for field in fields
            ):
                return name
        return None

    def _graded(self, case: Case) -> set[str]:
        """The fields that count on a case of this kind."""
        return {path for part in self.parts if not part.on or case.kind in part.on for path in part.fields}

    def judge(self, cases: Sequence[Case], observations: Sequence[Observation]) -> Verdict:
        """Points part by part, and the misconception that explains the first part without full points."""
        facts = [self.facts(case, seen) for case, seen in zip(cases, observations, strict=True)]
        judged = _Judged(self, find_question(self.id), list(cases), facts)
        return Verdict(self.id, judged.parts, misconception=judged.misconception)

    def misconceptions(self) -> dict[str, Misconception]:
        """The words of each mistake, by its id."""
        return {mistake.id: Misconception(mistake.what, mistake.look_at) for mistake in self.mistakes}

    def public_cases(self) -> tuple[PublicCase, ...]:
        """The visible cases with what is right on them, and what each mistake gives where that differs.

        Raises DescriptionError when a mistake shows on no visible case, or looks like another one on all of them.
        """
        tolerance = find_question(self.id).relative_tolerance
        cases = []
        for case in self.visible:
            expected = nested(self.reference(case))
            forms = {name: form for mistake in self.mistakes for name, form in mistake.forms().items()}
            shown = {name: _changed(simulate(case), expected, tolerance) for name, simulate in forms.items()}
            shown = {name: fields for name, fields in shown.items() if fields}
            cases.append(PublicCase(case.kind, case.inputs, expected, shown))
        self._refuse_alike(cases, tolerance)
        return tuple(cases)

    def _refuse_alike(self, cases: Sequence[PublicCase], tolerance: float) -> None:
        seen: dict[str, list[Fields]] = {}
        shown = [mistake for mistake in self.mistakes if not (mistake.hidden_only or mistake.constant)]
        for name in (name for mistake in shown for name in mistake.forms()):
            fields = [case.mistakes.get(name, {}) for case in cases]
            if not any(fields):
                raise DescriptionError(
                    f"{self.id}: the mistake {name} gives the right values on every visible case: add a case "
                    "that shows it, or say hidden_only=True"
                )
            for other, its in seen.items():
                if agree(fields, its, tolerance):
                    raise DescriptionError(
                        f"{self.id}: on the visible cases the mistakes {other} and {name} give the same: add a "
                        "case that tells them apart, or say hidden_only=True for one of them"
                    )
            seen[name] = fields

    def check(self) -> None:
        """Raise DescriptionError when names in the description do not fit together."""
        mistakes = [mistake.id for mistake in self.mistakes]
        names = [part.name for part in self.parts]
        for what, ids in (("mistake", mistakes), ("part", names)):
            for doubled in sorted({name for name in ids if ids.count(name) > 1}):
                raise DescriptionError(f"{self.id}: two {what}s are called {doubled}")
        public = find_question(self.id)
        for part in self.parts:
            for unknown in sorted({*part.unless, *part.forgives} - set(mistakes)):
                raise DescriptionError(f"{self.id}, part {part.name}: there is no mistake {unknown}")
            if part.needs and part.needs not in names:
                raise DescriptionError(f"{self.id}, part {part.name}: there is no part {part.needs}")
            for path in part.fields:
                if split(path)[0] not in public.parts or not split(path)[1]:
                    raise DescriptionError(
                        f"{self.id}, part {part.name}: {path!r} is not PART.FIELD of the observation "
                        f"(parts: {', '.join(public.parts)})"
                    )


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


def _changed(fields: Mapping[str, Any], expected: Fields, tolerance: float) -> dict[str, dict[str, Any]]:
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


@dataclass
class _Judged:
    """One submission's observations beside what the description says of their cases."""

    description: Description
    public: PublicQuestion
    cases: list[Case]
    observations: list[Observation]
    _simulated: dict[str, list[list[Fields]]] = field(default_factory=dict)

    @cached_property
    def expected(self) -> list[Fields]:
        return [nested(self.description.reference(case)) for case in self.cases]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        graded: dict[str, Part] = {}
        for part in self.description.parts:
            graded[part.name] = self._grade(part)
            if part.needs and graded[part.name].points and not graded[part.needs].points:
                message = f"counts once the part `{part.needs}` is right"
                graded[part.name] = Part(part.name, 0.0, part.points, message)
            elif graded[part.name].points and sum(other.points > 0 for other in graded.values()) <= part.after:
                message = f"counts once {part.after} of the parts before it are right"
                graded[part.name] = Part(part.name, 0.0, part.points, message)
        return tuple(graded.values())

    def _selected(self, part: Graded) -> Iterator[tuple[Case, Observation, Fields]]:
        for case, observation, expected in zip(self.cases, self.observations, self.expected, strict=True):
            if not part.on or case.kind in part.on:
                yield case, observation, expected

    def _grade(self, part: Graded) -> Part:
        kinds: dict[str, int] = {}
        for case, observation, expected in self._selected(part):
            kinds[case.kind] = kinds.get(case.kind, 0) + 1
            for path in part.fields:
                name, entry = split(path)
                value, reason = read_field(observation, name, entry)
                if value is None:
                    return Part(part.name, 0.0, part.points, of_kind(case, part.name, reason))
                wrong = difference(value, expected[name][entry], self.public.relative_tolerance)
                if wrong is not None and not self._forgives(part):
                    return Part(part.name, 0.0, part.points, of_kind(case, part.name, without_values(wrong)))
        if not kinds:
            raise DescriptionError(f"{self.description.id}: no hidden case is of a kind of the part {part.name}")
        for mistake in self.description.mistakes:
            if mistake.id in part.unless and self._explains(mistake):
                return Part(part.name, 0.0, part.points, mistake.what)
        named = f" ({', '.join(sorted(kinds))})" if len(kinds) <= _MOST_KINDS else ""
        return Part(part.name, part.points, part.points, f"right on {sum(kinds.values())} hidden cases{named}")

    def _forgives(self, part: Graded) -> bool:
        return any(self._explains(mistake) for mistake in self.description.mistakes if mistake.id in part.forgives)

    def _explains(self, mistake: Mistake, path: str | None = None) -> bool:
        if mistake.constant:
            concerned = path is None or split(path)[0] in {split(constant)[0] for constant in mistake.constant}
            return concerned and all(map(self._constant, mistake.constant))
        tolerance = self.public.relative_tolerance
        return any(
            explains(self.observations, self.expected, simulated, tolerance, path)
            for simulated in self._simulate(mistake)
        )

    def _simulate(self, mistake: Mistake) -> list[list[Fields]]:
        if mistake.id not in self._simulated:
            self._simulated[mistake.id] = [
                [
                    _changed(simulate(case), expected, self.public.relative_tolerance)
                    for case, expected in zip(self.cases, self.expected, strict=True)
                ]
                for simulate in mistake.forms().values()
            ]
        return self._simulated[mistake.id]

    def _constant(self, path: str) -> bool:
        name, entry = split(path)
        values = [read_field(observation, name, entry)[0] for observation in self.observations]
        values = [value for value in values if value is not None]
        return len(values) > 1 and all(agree(value, values[0], 0.0) for value in values)

    @cached_property
    def misconception(self) -> str | None:
        for part, graded in zip(self.parts, self.description.parts, strict=True):
            if part.points < part.maximum:
                for mistake in self.description.mistakes:
                    if mistake.id in graded.unless and self._explains(mistake):
                        return mistake.id
                    if any(self._explains(mistake, path) for path in graded.fields):
                        return mistake.id
        return None
