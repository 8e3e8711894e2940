"""Recognises a known mistake by its numbers: it must explain everything that was observed, not one case of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .compare import agree

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


_NOTHING = object()


def _observed(observation: Mapping[str, Any], part: str, name: str) -> Any:
    fields = observation.get(part, {})
    values = fields.get("value") if isinstance(fields, Mapping) else None
    return values.get(name, _NOTHING) if isinstance(values, Mapping) else _NOTHING
