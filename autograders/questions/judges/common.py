"""What the judges share: a hidden case, reading one part of an observation, and grading a part over its cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lecture_lib.notebook.compare import agree, difference

from ..verdict import Part

Drawn = TypeVar("Drawn")

Observation = Mapping[str, Any]
"""part -> {"value": …} or {"raised": text} or {"unanswered": True}, decoded."""


@dataclass(frozen=True)
class HiddenCase:
    """`inputs` travel into the student's process; `key`, what the judge knows besides, never does."""

    kind: str
    inputs: Mapping[str, Any]
    key: Any = field(default=None, repr=False)


def draw_until(draw: Callable[[], Drawn], clear: Callable[[Drawn], bool], most: int = 200) -> Drawn:
    """Draw again until a draw is `clear`, so that no verdict depends on a case that lies near a threshold.

    Raises RuntimeError after `most` draws: the settings of the draw and its condition do not fit.
    """
    for _ in range(most):
        drawn = draw()
        if clear(drawn):
            return drawn
    raise RuntimeError(f"none of {most} draws was clear of the threshold: change what is drawn")


def value(observation: Observation, part: str) -> Mapping[str, Any] | None:
    """The fields that a part returned, or None when it returned nothing readable."""
    seen = observation.get(part)
    found = seen.get("value") if isinstance(seen, Mapping) else None
    return found if isinstance(found, Mapping) else None


def why_none(observation: Observation, part: str) -> str:
    """Why `value` is None: not answered, or the exception in the student's own words."""
    seen = observation.get(part)
    if not isinstance(seen, Mapping):
        return "nothing was observed"
    if "unanswered" in seen:
        return "not answered"
    if "unusable" in seen:
        return str(seen["unusable"])[:300]
    return f"your code raised {str(seen.get('raised', 'something unreadable'))[:300]}"


def read_field(observation: Observation, part: str, name: str) -> tuple[Any, str]:
    """What a part returned under a name, and the reason to give where there is nothing."""
    fields = value(observation, part)
    return (None, why_none(observation, part)) if fields is None else (fields.get(name), f"no {name} was returned")


def read_fields(observation: Observation, part: str, *names: str) -> tuple[Any, str]:
    """What a part returned under several names (default: under all), as a dict; or None and the reason."""
    fields = value(observation, part)
    if fields is None:
        return None, why_none(observation, part)
    return {name: fields.get(name) for name in names or fields}, ""


def read_names(observation: Observation, part: str) -> tuple[set[str] | None, str]:
    """The set of names that a part reported in the field of its own name; or None and the reason."""
    names = (value(observation, part) or {}).get(part)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None, why_none(observation, part)
    return set(names), ""


def all_unanswered(observations: Iterable[Observation]) -> bool:
    """Whether no part was answered in any case."""
    return all("unanswered" in seen for observation in observations for seen in observation.values())


def grade_part(
    name: str,
    maximum: float,
    pairs: Sequence[tuple[HiddenCase, Observation]],
    read: Callable[[Observation], tuple[Any, str]],
    expected: Callable[[HiddenCase], Any],
    tolerance: float,
) -> Part:
    """All of a part's points when every case agrees, else none, with the first case that does not.

    `read` gives a case's value and, when there is none, the reason. Only what was observed is told, never the inputs
    or the expected values: they would be the answer to the next attempt.
    """
    for case, observation in pairs:
        found, reason = read(observation)
        if found is None:
            return Part(name, 0.0, maximum, of_kind(case, name, reason))
        wrong = difference(found, expected(case), tolerance)
        if wrong is not None:
            return Part(name, 0.0, maximum, of_kind(case, name, without_values(wrong)))
    kinds = sorted({case.kind for case, _ in pairs})
    return Part(name, maximum, maximum, f"right on {len(pairs)} hidden cases ({', '.join(kinds)})")


def of_kind(case: HiddenCase, part: str, message: str) -> str:
    return message if case.kind == part else f"{case.kind}: {message}"


def without_values(wrong: str) -> str:
    """A difference in words without the values, which would tell a hidden input's answer."""
    if "shape" in wrong or "dtype" in wrong or "expected a" in wrong:
        return wrong
    size = re.search(r"off by \S+", wrong)
    return f"the values are wrong ({size[0]})" if size else "the value is wrong"


def first_match(
    simulations: Iterable[tuple[str, Callable[[HiddenCase], Any]]],
    pairs: Sequence[tuple[HiddenCase, Any]],
    tolerance: float,
) -> str | None:
    """The first misconception whose simulated result agrees with what was observed in every one of `pairs`."""
    for misconception, simulate in simulations:
        if pairs and all(agree(found, simulate(case), tolerance) for case, found in pairs):
            return misconception
    return None
