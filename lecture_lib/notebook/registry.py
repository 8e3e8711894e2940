"""The course's questions: the public halves, from the package that `lecture_lib/course.toml` names."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from .._common.course_setting import CourseSettingError, read_course_setting
from .question import PublicQuestion
from .visible_cases import with_visible_cases


@functools.cache
def public_questions() -> Mapping[str, PublicQuestion]:
    """What the files of the package call QUESTION, by id and in the order of the ids.

    Not made while this module is imported: a question's file imports from this folder itself.
    """
    package = _package()
    modules = [
        importlib.import_module(f"{package.__name__}.{file.name}") for file in pkgutil.iter_modules(package.__path__)
    ]
    questions = [_complete(module.QUESTION) for module in modules if hasattr(module, "QUESTION")]
    return {question.id: question for question in sorted(questions, key=lambda question: question.id)}


def find_question(question_id: str) -> PublicQuestion:
    """Return the public question of that id; KeyError lists the known ids."""
    try:
        return public_questions()[question_id]
    except KeyError:
        ids = ", ".join(public_questions())
        raise KeyError(f"no question {question_id!r}; there are: {ids}") from None


def visible_cases_path(question_id: str) -> Path:
    """The file that holds the visible cases of a question, beside its public half."""
    return Path(_package().__path__[0]) / f"{question_id}.json"


def _package() -> ModuleType:
    name = read_course_setting().questions
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The package itself exists and imports something that is missing: that error says what.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise CourseSettingError(
            f"course.toml: questions = {name!r}, and there is no package {error.name}. Name the package that holds the "
            "questions' public halves, such as 'lecture_lib.notebook.questions'."
        ) from None


def _complete(question: PublicQuestion) -> PublicQuestion:
    path = visible_cases_path(question.id)
    return with_visible_cases(question, path) if path.exists() else question
