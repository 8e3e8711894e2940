"""How large an observation may be: it is judged in the grader's own process, and kept in the journal."""

from __future__ import annotations

from typing import Any

from ..intake.reading.submission_limits import MAX_OBSERVATION, MAX_VALUES
from ..probes.codec import MalformedObservation

_REFUSED = "refused"


def refuse_large(published: Any) -> None:
    """Raise MalformedObservation for data that a judge would take long over. Counting ends at the limits."""
    # A list of what waits, not recursion: how deep it is nested is the sender's choice.
    characters, values, waiting = 0, 0, [published]
    while waiting:
        value = waiting.pop()
        values += 1
        if isinstance(value, dict):
            characters += sum(map(len, value))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            characters += len(value)
        else:
            characters += 8
        if characters > MAX_OBSERVATION:
            raise MalformedObservation(f"more than {MAX_OBSERVATION:,} characters were published")
        # What waits counts already: a list of millions is refused before its entries are looked at.
        if values + len(waiting) > MAX_VALUES:
            raise MalformedObservation(f"more than {MAX_VALUES:,} values were published")


def within_limits(published: Any) -> Any:
    """What a probe published, or the reason why it is not kept, in a form that `reason_of` knows again."""
    try:
        refuse_large(published)
    except MalformedObservation as error:
        return {_REFUSED: str(error)}
    return published


def reason_of(published: Any) -> str | None:
    """Why an observation was not kept; None for one that was."""
    if isinstance(published, dict) and set(published) == {_REFUSED}:
        # A student's code can publish this form itself, with a text of any length.
        return str(published[_REFUSED])[:200]
    return None
