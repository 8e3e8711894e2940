"""The public half of every graded question, one file each."""

from ..question import PublicQuestion
from . import accumulate, baseline, clip, inspect

PUBLIC_QUESTIONS: dict[str, PublicQuestion] = {
    module.QUESTION.id: module.QUESTION for module in (accumulate, clip, inspect, baseline)
}


def find_question(question_id: str) -> PublicQuestion:
    """Return the public question of that id; KeyError lists the known ids."""
    try:
        return PUBLIC_QUESTIONS[question_id]
    except KeyError:
        known = ", ".join(PUBLIC_QUESTIONS)
        raise KeyError(f"no question {question_id!r}; there are: {known}") from None
