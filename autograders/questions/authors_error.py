"""Where an exception comes from a course's own questions: the author wants that line, not the way to it."""

from __future__ import annotations

import traceback
from pathlib import Path

from ..setting import DESCRIPTIONS, PUBLIC_HALVES, ROOT


def authors_line(error: Exception) -> str | None:
    """File, line, function and error in one sentence; None where no code of the course's questions was at work."""
    if isinstance(error, SyntaxError):
        return _sentence(error.filename or "", error.lineno, "", error) if _is_the_courses(error.filename) else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_the_courses(frame.filename)]
    return _sentence(frames[-1].filename, frames[-1].lineno, frames[-1].name, error) if frames else None


def _is_the_courses(filename: str | None) -> bool:
    path = Path(filename or "")
    return any(path.is_relative_to(folder) for folder in (DESCRIPTIONS, PUBLIC_HALVES))


def _sentence(filename: str, line: int | None, function: str, error: Exception) -> str:
    where = f"{Path(filename).relative_to(ROOT)}, line {line}" + (f", in {function}" if function else "")
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{where}: {type(error).__name__}: {said}. Mend that line of the question and run the command again."
