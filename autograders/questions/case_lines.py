"""A hidden case in words: its inputs, what was expected, and what was observed. For instructors and authors alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lecture_lib.notebook.compare import difference, show

from .cases import Case
from .graded_parts import nested
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


def _short(value: Any) -> str:
    text = " ".join(show(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
