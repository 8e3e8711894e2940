"""Recognises a known mistake by its numbers: it must explain everything that was observed, not one case of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .compare import agree
from .question import Misconception, PublicQuestion

Fields = Mapping[str, Mapping[str, Any]]
"""part -> field -> value."""


def mistake_of(form: str) -> str:
    """The mistake's id in the name of one of its forms ("id", "id/2", "id/3" …)."""
    return form.partition("/")[0]


def explains(
    observations: Sequence[Mapping[str, Any]],
    expected: Sequence[Fields],
    mistaken: Sequence[Fields],
    relative_tolerance: float,
    path: str | None = None,
) -> bool:
    """Whether a mistake gives what was observed, case by case, in every field that it changes on any of the cases.

    A field that a case does not have (its kind is not asked for it) says nothing about that case.

    Args:
        observations: for each case, part -> {"value": {field: value}} or {"raised": text}.
        expected: what is right on each case.
        mistaken: for each case, the fields that the mistake changes there; elsewhere it gives what is right.
        relative_tolerance: as in `compare.difference`.
        path: a field ("part.field") that the mistake must change on some case; default: any.

    """
    changed = {(part, name) for fields in mistaken for part, values in fields.items() for name in values}
    if not changed or (path is not None and tuple(path.split(".", maxsplit=1)) not in changed):
        return False
    return all(
        agree(_observed(observation, part, name), wrong.get(part, {}).get(name, right[part][name]), relative_tolerance)
        for observation, right, wrong in zip(observations, expected, mistaken, strict=True)
        for part, name in changed
        if name in right.get(part, {})
    )


# Not None, which an answer may return and a mistake may give.
_NOTHING = object()


def _observed(observation: Mapping[str, Any], part: str, name: str) -> Any:
    fields = observation.get(part, {})
    values = fields.get("value") if isinstance(fields, Mapping) else None
    return values.get(name, _NOTHING) if isinstance(values, Mapping) else _NOTHING


GENERAL = {
    "nothing-returned": Misconception(
        "None came back where a value is due", "whether every way through your function ends with `return`"
    ),
    "wrong-dtype": Misconception(
        "the numbers are right, in another dtype than asked for",
        "the `dtype` of your result, and of the array or tensor that it was made from",
    ),
    "wrong-shape": Misconception(
        "the numbers are right, in another shape than asked for",
        "the `shape` of your result beside the one that the question states",
    ),
}
"""Mistakes that can be made in any question, and are told by the values alone."""


def words_of(question: PublicQuestion, mistake: str | None) -> Misconception | None:
    """The words for a mistake of this question or a general one; None for any other name."""
    return question.misconceptions.get(mistake or "") or GENERAL.get(mistake or "")


def general_mistake(value: Any, expected: Any, relative_tolerance: float) -> str | None:
    """Which of the general mistakes makes `value` differ from what is right, or None."""
    if _lacks(value, expected):
        return "nothing-returned"
    if agree(_like(value, expected, reshape=False), expected, relative_tolerance):
        return "wrong-dtype"
    return "wrong-shape" if agree(_like(value, expected, reshape=True), expected, relative_tolerance) else None


def _lacks(value: Any, expected: Any) -> bool:
    """Whether there is None in the place of something."""
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        return any(map(_lacks, value, expected))
    return value is None and expected is not None


def _like(value: Any, expected: Any, *, reshape: bool) -> Any:
    """`value` with the dtypes of `expected`, and with its shapes too where they hold as many numbers."""
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        # Not strict: with another length nothing agrees in the end, whatever is compared here.
        return [_like(part, right, reshape=reshape) for part, right in zip(value, expected, strict=False)]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or isinstance(expected, str | dict | None):
        return value
    right = np.asarray(expected)
    shaped = value.reshape(right.shape) if reshape and value.size == right.size else value
    return shaped.astype(right.dtype) if right.dtype.kind == "f" else shaped
