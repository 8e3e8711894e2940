"""Judges one submission's observations of a question: points for each part, and the mistake that explains the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lecture_lib.notebook.compare import agree, difference
from lecture_lib.notebook.misconceptions import (
    CORNER_CASE,
    NOTHING,
    OVERWRITES,
    SECOND_CALL,
    Fields,
    explains,
    general_mistake,
)

from .cases import Case, Observation, of_kind, read_field, without_values
from .cases import value as fields_of
from .coverage import ALLOWED
from .graded_parts import DescriptionError, Graded, Mistake, changed_fields, charged_beyond, split
from .verdict import Part

STOPPED = {"raised": "raised", "unusable": "wrong-form", "overwritten": OVERWRITES}
"""The general mistake behind an outcome without a value."""
_MOST_KINDS = 12
"""Kinds of cases that a message lists."""
_KINDS_FOR_ONE_WRONG = 3
"""An answer that is wrong on one kind of inputs in so many has a corner case, not a wrong idea."""


Simulated = dict[str, list[list[Fields]]]
"""What each form of a mistake changes, case by case; by the mistake's id."""


@dataclass
class Judgement:
    """One submission's observations beside what the description says of their cases."""

    graded: Sequence[Graded]
    mistakes: Sequence[Mistake]
    tolerance: float
    cases: Sequence[Case]
    expected: Sequence[Fields]
    observations: Sequence[Observation]
    _simulated: Simulated = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        graded: dict[str, Part] = {}
        for part in self.graded:
            graded[part.name] = self._grade(part)
            # The part that it needs is before it in the description, so its points are decided by now.
            if part.needs and graded[part.name].points and not graded[part.needs].points:
                message = f"counts once the part `{part.needs}` is right"
                graded[part.name] = Part(part.name, 0.0, part.points, message)
            elif graded[part.name].points and sum(earlier.points > 0 for earlier in graded.values()) <= part.after:
                message = f"counts once {part.after} of the parts before it are right"
                graded[part.name] = Part(part.name, 0.0, part.points, message)
        if all(part.points == part.maximum for part in graded.values()):
            for part, message in charged_beyond(self.graded, self._wrong_where_added):
                graded[part.name] = Part(part.name, 0.0, part.points, message)
        return tuple(graded.values())

    def _wrong_where_added(self, part: Graded, path: str) -> str:
        """What is wrong with a field on cases that were added from the domain; "" where nothing is."""
        name, entry = split(path)
        for case, observation, expected in zip(self.cases, self.observations, self.expected, strict=True):
            if case.kind == ALLOWED and entry in expected.get(name, {}):
                message = self._wrong(part, observation, expected, path)
                if message:
                    return of_kind(case, part.name, message)
        return ""

    def _selected(self, part: Graded) -> Iterator[tuple[Case, Observation, Fields]]:
        for case, observation, expected in zip(self.cases, self.observations, self.expected, strict=True):
            if part.counts(case):
                yield case, observation, expected

    def _grade(self, part: Graded) -> Part:
        kinds: dict[str, int] = {}
        for case, observation, expected in self._selected(part):
            kinds[case.kind] = kinds.get(case.kind, 0) + 1
            for path in part.fields:
                message = self._wrong(part, observation, expected, path)
                if message:
                    return Part(part.name, 0.0, part.points, of_kind(case, part.name, message))
        if not kinds:
            raise DescriptionError(f"no hidden case is of a kind of the part {part.name}")
        # Right values alone are not enough where a known mistake gives them on these cases too.
        for mistake in self.mistakes:
            if mistake.id in part.unless and self._explains(mistake):
                return Part(part.name, 0.0, part.points, mistake.what)
        named = f" ({', '.join(sorted(kinds))})" if len(kinds) <= _MOST_KINDS else ""
        return Part(part.name, part.points, part.points, f"right on {sum(kinds.values())} hidden cases{named}")

    def _wrong(self, part: Graded, observation: Observation, expected: Fields, path: str) -> str:
        """What is wrong with a field on a case; "" where nothing is, or where another part charges it."""
        name, entry = split(path)
        value, reason = read_field(observation, name, entry)
        right = expected[name][entry]
        if value is NOTHING or (value is None and right is not None):
            return reason
        wrong = difference(value, right, self.tolerance)
        return "" if wrong is None or self._forgives(part) else without_values(wrong)

    def _forgives(self, part: Graded) -> bool:
        return any(self._explains(mistake) for mistake in self.mistakes if mistake.id in part.forgives)

    def _explains_part(self, mistake: Mistake, part: Graded) -> bool:
        """Whether a mistake gives what was observed in one part, and nothing right was observed where it is wrong."""
        if mistake.constant:
            return False
        cases = [number for number, case in enumerate(self.cases) if part.counts(case)]
        return any(
            explains(
                [self.observations[number] for number in cases],
                [_only(self.expected[number], part.fields) for number in cases],
                [_only(simulated[number], part.fields) for number in cases],
                self.tolerance,
            )
            and not self._contradicts(simulated)
            for simulated in self._simulate(mistake)
        )

    def _contradicts(self, simulated: Sequence[Fields]) -> bool:
        """Whether the right value was observed where a mistake gives another."""
        for observation, expected, wrong in zip(self.observations, self.expected, simulated, strict=True):
            for owner, fields in wrong.items():
                for name in fields:
                    value = read_field(observation, owner, name)[0]
                    if agree(value, expected[owner][name], self.tolerance):
                        return True
        return False

    def _explains(self, mistake: Mistake, path: str | None = None) -> bool:
        if mistake.constant:
            concerned = path is None or split(path)[0] in {split(constant)[0] for constant in mistake.constant}
            return concerned and all(map(self._constant, mistake.constant))
        return any(
            explains(self.observations, self.expected, simulated, self.tolerance, path)
            for simulated in self._simulate(mistake)
        )

    def _simulate(self, mistake: Mistake) -> list[list[Fields]]:
        if mistake.id not in self._simulated:
            self._simulated[mistake.id] = [
                [
                    changed_fields(simulate(case), expected, self.tolerance)
                    for case, expected in zip(self.cases, self.expected, strict=True)
                ]
                for simulate in mistake.forms().values()
            ]
        return self._simulated[mistake.id]

    def _constant(self, path: str) -> bool:
        name, entry = split(path)
        values = [read_field(observation, name, entry)[0] for observation in self.observations]
        # Where None is never right, it means a missing `return` rather than an answer.
        none_can_be_right = any(fields.get(name, {}).get(entry, NOTHING) is None for fields in self.expected)
        values = [value for value in values if value is not NOTHING and (value is not None or none_can_be_right)]
        # One value by itself would be constant whatever was computed.
        return len(values) > 1 and all(agree(value, values[0], 0.0) for value in values)

    @cached_property
    def misconception(self) -> str | None:
        """The mistake that explains the first part without full points.

        One that explains everything that was observed goes before one that explains a part alone: an answer with two
        mistakes shows each in another part.
        """
        lost = [graded for part, graded in zip(self.parts, self.graded, strict=True) if part.points < part.maximum]
        for graded in lost:
            # What an answer returns of arguments that it has changed does not say what else it does wrong.
            if self._overwrites(graded):
                return OVERWRITES
            for mistake in self.mistakes:
                if mistake.id in graded.unless and self._explains(mistake):
                    return mistake.id
                if any(self._explains(mistake, path) for path in graded.fields):
                    return mistake.id
        for graded in lost:
            for mistake in self.mistakes:
                if self._explains_part(mistake, graded):
                    return mistake.id
        general = next((name for graded in lost if (name := self._general(graded)) is not None), None)
        return general or (CORNER_CASE if any(map(self._is_corner_case, lost)) else None)

    def _overwrites(self, part: Graded) -> bool:
        owners = {split(path)[0] for path in part.fields}
        outcomes = [observation.get(owner) for _, observation, _ in self._selected(part) for owner in owners]
        return any(isinstance(outcome, Mapping) and "overwritten" in outcome for outcome in outcomes)

    def _is_corner_case(self, part: Graded) -> bool:
        """Whether the fields of a part are right on most kinds of cases, so that the others are special somehow.

        All kinds that are drawn count, because a part may be asked for the special ones alone. Either most kinds of
        the part are right, or most cases and kinds of the question.
        """
        wrong_of: dict[str, list[bool]] = {}
        for case, observation, expected in zip(self.cases, self.observations, self.expected, strict=True):
            values = [
                (read_field(observation, owner, entry)[0], expected[owner][entry])
                for owner, entry in map(split, part.fields)
                if entry in expected.get(owner, {})
            ]
            if values:
                wrong = any(difference(*pair, self.tolerance) is not None for pair in values)
                wrong_of.setdefault(case.kind, []).append(wrong)
        added = wrong_of.pop(ALLOWED, [])
        own = [any(wrong_of[kind]) for kind in wrong_of if not part.on or kind in part.on]
        cases = [wrong for each in wrong_of.values() for wrong in each]
        if not any(cases):
            return any(added)
        return _few(own) or (_few([*map(any, wrong_of.values())]) and _few(cases))

    def _general(self, part: Graded) -> str | None:
        """The general mistake that explains every wrong value of a part; an error goes before wrong values."""
        names: set[str | None] = set()
        for _, observation, expected in self._selected(part):
            for owner, entry in map(split, part.fields):
                fields = fields_of(observation, owner)
                if fields is None:
                    outcome = observation.get(owner)
                    names |= (
                        {STOPPED.get(how) for how in outcome if how not in ("left", "again")}
                        if isinstance(outcome, Mapping)
                        else {None}
                    )
                    continue
                if not agree(fields.get(entry), expected[owner][entry], self.tolerance):
                    again = SECOND_CALL if "again" in observation[owner] else None
                    names.add(again or general_mistake(fields.get(entry), expected[owner][entry], self.tolerance))
        raised = STOPPED["raised"]
        return raised if raised in names else names.pop() if len(names) == 1 else None


def _few(wrong: Sequence[bool]) -> bool:
    return 0 < sum(wrong) <= len(wrong) / _KINDS_FOR_ONE_WRONG


def _only(fields: Fields, paths: Sequence[str]) -> Fields:
    """The fields that `paths` name."""
    return {
        part: {name: value for name, value in values.items() if f"{part}.{name}" in paths}
        for part, values in fields.items()
    }
