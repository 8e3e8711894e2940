"""A hidden case in words: its inputs, what was expected, and what was observed. For instructors and authors alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lecture_lib.notebook.compare import agree, difference, show
from lecture_lib.notebook.misconceptions import NOTHING

from .cases import Case, Observation, read_field
from .graded_parts import Simulation, changed_fields, nested
from .question import Question

WRONG = "✗"
_LONGEST = 400
"""Characters of a value that are shown."""


def case_lines(question: Question, number: int, case: Case, observation: Mapping[str, Any]) -> Iterator[str]:
    """The lines of one case; those with what differs begin with WRONG."""
    yield f"case {number}, {case.kind}"
    for name, value in case.inputs.items():
        yield f"  input {name} = {_short(value)}"
    expected = nested(question.description.reference(case))
    for part, observed in observation.items():
        values = observed.get("value")
        if not isinstance(values, Mapping):
            yield f"  {WRONG} {part}: {'; '.join(f'{key}: {_short(text)}' for key, text in observed.items())}"
            continue
        for name in [*expected.get(part, {}), *(name for name in values if name not in expected.get(part, {}))]:
            if name not in expected.get(part, {}):
                yield f"    {part}.{name}: observed {_short(values.get(name))}"
                continue
            right = expected[part][name]
            wrong = difference(values.get(name), right, question.public.relative_tolerance, name)
            if wrong is None:
                yield f"  ✓ {part}.{name}: {_short(right)}"
            else:
                both = f"expected {_short(right)}, observed {_short(values.get(name))}"
                yield f"  {WRONG} {part}.{name}: {both} ({wrong})"


def departures(
    question: Question, simulate: Simulation, cases: Sequence[Case], observations: Sequence[Observation]
) -> Iterator[str]:
    """Where an answer did something else than a mistake would, in the fields that the mistake changes on any case.

    In words, and by the rule by which `lecture_lib.notebook.misconceptions.explains` decides.
    """
    tolerance = question.public.relative_tolerance
    expected = [nested(question.description.reference(case)) for case in cases]
    mistaken = [changed_fields(simulate(case), right, tolerance) for case, right in zip(cases, expected, strict=True)]
    changed = {(part, name) for fields in mistaken for part, values in fields.items() for name in values}
    of_cases = zip(cases, observations, expected, mistaken, strict=True)
    for number, (case, observation, right, wrong) in enumerate(of_cases, 1):
        for part, values in right.items():
            for name in (name for name in values if (part, name) in changed):
                value = wrong.get(part, {}).get(name, values[name])
                observed, reason = read_field(observation, part, name)
                if not agree(observed, value, tolerance):
                    text = reason if observed is NOTHING else f"observed {_short(observed)}"
                    yield f"{part}.{name} = {_short(value)} in case {number}, {case.kind}; {text}"


def _short(value: Any) -> str:
    text = " ".join(show(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
