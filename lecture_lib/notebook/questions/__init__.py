"""The public half of every graded question, one file each."""

import importlib
import pkgutil
from pathlib import Path

from ..question import PublicQuestion
from ..visible_cases import with_visible_cases


def _found() -> dict[str, PublicQuestion]:
    """What the files beside this one call QUESTION, in the order of their ids."""
    modules = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    questions = [_complete(module.QUESTION) for module in modules if hasattr(module, "QUESTION")]
    return {question.id: question for question in sorted(questions, key=lambda question: question.id)}


def visible_cases_path(question_id: str) -> Path:
    """The file that holds the visible cases of a question."""
    return Path(__file__).with_name(f"{question_id}.json")


def _complete(question: PublicQuestion) -> PublicQuestion:
    path = visible_cases_path(question.id)
    return with_visible_cases(question, path) if path.exists() else question


PUBLIC_QUESTIONS = _found()


def find_question(question_id: str) -> PublicQuestion:
    """Return the public question of that id; KeyError lists the known ids."""
    try:
        return PUBLIC_QUESTIONS[question_id]
    except KeyError:
        known = ", ".join(PUBLIC_QUESTIONS)
        raise KeyError(f"no question {question_id!r}; there are: {known}") from None
