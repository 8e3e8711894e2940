"""The public half of every graded question, one file each."""

import importlib
import pkgutil

from ..question import PublicQuestion


def _found() -> dict[str, PublicQuestion]:
    """What the files beside this one call QUESTION, in the order of their ids."""
    modules = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    questions = [module.QUESTION for module in modules if hasattr(module, "QUESTION")]
    return {question.id: question for question in sorted(questions, key=lambda question: question.id)}


PUBLIC_QUESTIONS = _found()


def find_question(question_id: str) -> PublicQuestion:
    """Return the public question of that id; KeyError lists the known ids."""
    try:
        return PUBLIC_QUESTIONS[question_id]
    except KeyError:
        known = ", ".join(PUBLIC_QUESTIONS)
        raise KeyError(f"no question {question_id!r}; there are: {known}") from None
