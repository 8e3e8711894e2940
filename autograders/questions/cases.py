"""A case of a question, and how what was observed on it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lecture_lib.notebook.misconceptions import NOTHING

Drawn = TypeVar("Drawn")

Observation = Mapping[str, Any]
"""part -> {"value": …} or {"raised": text} or {"unanswered": True}, decoded."""


@dataclass(frozen=True)
class Case:
    """`inputs` travel into the student's process; `key`, what is known of the case besides, never does.

    `variant` names the variant that the case was drawn for, where the question has several.
    """

    kind: str
    inputs: Mapping[str, Any]
    key: Any = field(default=None, repr=False)
    variant: str = ""


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
    # A student's process sent it: at every level it may be something else than a mapping.
    outcome = observation.get(part)
    fields = outcome.get("value") if isinstance(outcome, Mapping) else None
    return fields if isinstance(fields, Mapping) else None


def why_none(observation: Observation, part: str) -> str:
    """Why `value` is None: not answered, or the exception in the student's own words."""
    outcome = observation.get(part)
    if not isinstance(outcome, Mapping):
        return "nothing was observed"
    if "unanswered" in outcome:
        return "not answered"
    for reason in ("unusable", "overwritten"):
        if reason in outcome:
            return str(outcome[reason])[:300]
    # Cut: a student's own text can be of any length, and goes into the journal with the verdict.
    return f"your code raised {str(outcome.get('raised', 'something unreadable'))[:300]}"


def read_field(observation: Observation, part: str, name: str) -> tuple[Any, str]:
    """What a part returned under a name, or NOTHING; and the reason to give where there is nothing."""
    fields = value(observation, part)
    if fields is None:
        return NOTHING, why_none(observation, part)
    return fields.get(name, NOTHING), f"no {name} was returned"


def all_unanswered(observations: Iterable[Observation]) -> bool:
    """Whether no part was answered in any case."""
    return all("unanswered" in outcome for observation in observations for outcome in observation.values())


def of_kind(case: Case, part: str, message: str) -> str:
    return message if case.kind == part else f"{case.kind}: {message}"


def without_values(wrong: str) -> str:
    """A difference in words without the values, which would tell a hidden input's answer."""
    # Shapes and dtypes tell what to repair and nothing about a hidden input.
    if "shape" in wrong or "dtype" in wrong or "expected a" in wrong:
        return wrong
    size = re.search(r"off by \S+", wrong)
    return f"the values are wrong ({size[0]})" if size else "the value is wrong"
