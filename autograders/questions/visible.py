"""Writes the visible cases of each described question beside its public half."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lecture_lib.notebook.questions import visible_cases_path
from lecture_lib.notebook.visible_cases import as_json

from ..files import write_text_atomically
from .description import Description
from .question import QUESTIONS, Question


def visible_cases(questions: Iterable[Question] | None = None) -> Iterator[tuple[Path, str]]:
    """Each described question's file and what it must hold. Raises DescriptionError for one that contradicts itself."""
    for question in QUESTIONS.values() if questions is None else questions:
        if isinstance(question.hidden, Description):
            question.hidden.check()
            text = as_json(question.hidden.public_cases(), question.hidden.misconceptions())
            yield visible_cases_path(question.id), text


def write_visible_cases() -> list[Path]:
    """Write the files that are not as their description says. Returns their paths."""
    stale = [(path, text) for path, text in visible_cases() if not path.exists() or path.read_text("utf-8") != text]
    for path, text in stale:
        write_text_atomically(path, text)
    return [path for path, _ in stale]
