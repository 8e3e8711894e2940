"""Tries the bank of answers on a course's own hidden inputs before students get its notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tqdm import tqdm

from .. import notebooks
from ..questions.question import Question, questions_of
from ..questions.verify import Outcome, Sets, count, verify
from ..setting import ANSWERS, ROOT


class WrongVerdicts(RuntimeError):  # noqa: N818 - what was found, not a fault of the caller
    """Answers of the bank that do not get what they declare on this course's inputs."""

    def __init__(self, outcomes: list[Outcome], new_secret: bool) -> None:
        listed = "\n".join(f"  {outcome}" for outcome in outcomes)
        if any(len(outcome.differing) < len(outcome.results) for outcome in outcomes):
            # Right on other inputs: the grader errs on some, and neither author nor instructor wrote what is wrong.
            remedy = "Please report these lines. " + (
                "This course draws another secret when you run the command again."
                if new_secret
                else "If nothing was handed in yet, remove the file `secret` in the course's folder and run the "
                "command again: other inputs are drawn."
            )
        else:
            remedy = (
                "They differ on every set, so another secret would not help. `autograde verify --question ID` shows "
                f"why; mend the answer in {ANSWERS.relative_to(ROOT)} or the question's description."
            )
        super().__init__(
            f"answers of the bank ({len(outcomes)}) do not get what they declare on this course's hidden inputs, so a "
            f"grader would err on students' answers too. Nothing was written.\n{listed}\n{remedy}"
        )


def verify_on(secret: bytes, versions: Mapping[str, str], *, new_secret: bool, progress: bool = True) -> None:
    """Run every answer to the questions of these assignments on all sets of inputs that the course can draw.

    Args:
        secret: the course's.
        versions: assignment -> the version that is to be released.
        new_secret: whether the course has none yet, for the advice in the error.
        progress: show how far the bank is.

    Raises WrongVerdicts, which names each answer and the sets.

    """
    questions_of_assignment = {name: [question.of_course(secret) for question in _questions(name)] for name in versions}
    total = sum(map(count, questions_of_assignment.values()))
    wrong = []
    with tqdm(total=total, desc="verifying graders", unit="answer", disable=not progress) as bar:
        for name, questions in questions_of_assignment.items():
            for outcome in verify(questions, Sets(secret, versions[name])):
                bar.update()
                if not outcome.holds:
                    wrong.append(outcome)
    if wrong:
        raise WrongVerdicts(wrong, new_secret)


def chosen_variants(secret: bytes, assignments: Iterable[str]) -> Iterator[str]:
    """A line for each question of these assignments that is not the same in every course.

    Not what is special about the chosen variant: whoever learns alone would read the answer.
    """
    for question in (question for name in assignments for question in _questions(name)):
        if chosen := question.of_course(secret).variant:
            yield f"{question.id} has {chosen.name} of {len(question.variants)} in this course"


def _questions(assignment: str) -> list[Question]:
    nb = notebooks.read(notebooks.master_path(assignment))
    return list(questions_of([cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in nb.cells]))
