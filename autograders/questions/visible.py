"""Writes the visible cases of each question beside its public half."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lecture_lib.notebook.registry import visible_cases_path
from lecture_lib.notebook.visible_cases import as_json

from ..files import write_text_atomically
from .graded_parts import DescriptionError
from .question import QUESTIONS, Question


def visible_cases(questions: Iterable[Question] | None = None) -> Iterator[tuple[Path, str]]:
    """Each described question's file and what it must hold. Raises DescriptionError for one that contradicts itself."""
    chosen = list(QUESTIONS.values() if questions is None else questions)
    for question in chosen:  # before any cases are drawn, which takes a while
        if missing := question.not_filled_in():
            listed = "\n".join(f"  {entry}" for entry in missing)
            raise DescriptionError(f"{question.id} is not filled in; these lines ask for more:\n{listed}")
    for question in chosen:
        question.description.check()
        described = question.description
        words = described.misconceptions(published=True)
        text = as_json(described.public_cases(), described.practice_cases(), words)
        yield visible_cases_path(question.id), text


def stale(questions: Iterable[Question] | None = None) -> Iterator[tuple[Path, str]]:
    """The files that do not hold what their description says, with what they must hold; default: of all questions.

    Numbers may differ by rounding: processors do not agree on the last bit.
    """
    for path, text in visible_cases(questions):
        if not path.exists() or not _same(json.loads(path.read_text("utf-8")), json.loads(text)):
            yield path, text


def _same(stored: Any, derived: Any) -> bool:
    if isinstance(stored, dict) and isinstance(derived, dict):
        # The order counts: a check names the first mistake of the file that explains a value.
        return list(stored) == list(derived) and all(_same(stored[key], derived[key]) for key in derived)
    if isinstance(stored, list) and isinstance(derived, list):
        return len(stored) == len(derived) and all(map(_same, stored, derived))
    if isinstance(stored, float) and isinstance(derived, float):
        close = math.isclose(stored, derived, rel_tol=1e-9, abs_tol=1e-12)
        return close or (math.isnan(stored) and math.isnan(derived))
    return bool(type(stored) is type(derived) and stored == derived)


def write_visible_cases(questions: Iterable[Question] | None = None) -> list[Path]:
    """Write the files that are not as their description says; default: of all questions. Returns their paths."""
    written = list(stale(questions))
    for path, text in written:
        write_text_atomically(path, text)
    return [path for path, _ in written]
