"""Tries the bank of answers on a course's own hidden inputs before students get its notebooks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby

from tqdm import tqdm

from .. import notebooks
from ..questions.question import Question, questions_of
from ..questions.seeds import POOL, Substitutes
from ..questions.verify import Outcome, Sets, count, verify
from ..setting import ANSWERS, ROOT

MOST_REPLACED = POOL // 2  # sets of a question: beyond that its grader errs too often to be trusted on any


class WrongVerdicts(RuntimeError):  # noqa: N818 - what was found, not a fault of the caller
    """Answers of the bank that do not get what they declare on this course's inputs."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        listed = "\n".join(f"  {outcome}" for outcome in outcomes)
        if any(len(outcome.differing) < len(outcome.results) for outcome in outcomes):
            # Right on other inputs: the grader errs on some, and neither author nor instructor wrote what is wrong.
            remedy = f"Other inputs were drawn for up to {MOST_REPLACED} of {POOL} sets of a question, and that was "
            remedy += "not enough. Please report these lines."
        else:
            remedy = (
                "They differ on every set, so other inputs would not help. `autograde verify --question ID` shows "
                f"why; mend the answer in {ANSWERS.relative_to(ROOT)} or the question's description."
            )
        super().__init__(
            f"answers of the bank ({len(outcomes)}) do not get what they declare on this course's hidden inputs, so a "
            f"grader would err on students' answers too. Nothing was written.\n{listed}\n{remedy}"
        )


def verify_on(secret: bytes, versions: Mapping[str, str], before: Substitutes, *, progress: bool = True) -> Substitutes:
    """Run every answer to the questions of these assignments on all sets of inputs that the course can draw.

    A set on which an answer does not get what it declares is replaced by the next one on which all do; a line says so.

    Args:
        secret: the course's.
        versions: assignment -> the version that is to be released.
        before: the sets that earlier releases of the course replaced; where their substitutes hold, they stay.
        progress: show how far the bank is.

    Returns the sets that are replaced in these versions. Raises WrongVerdicts, which names each answer and the sets,
    where an answer differs on every set, or where more than MOST_REPLACED sets of a question would have to go.

    """
    questions_of_assignment = {name: [question.of_course(secret) for question in _questions(name)] for name in versions}
    total = sum(map(count, questions_of_assignment.values()))
    wrong: list[Outcome] = []
    with tqdm(total=total, desc="verifying graders", unit="answer", disable=not progress) as bar:
        for name, questions in questions_of_assignment.items():
            for outcome in verify(questions, Sets(secret, versions[name])):
                bar.update()
                if not outcome.holds:
                    wrong.append(outcome)
    substitutes = {version: dict(before.get(version, {})) for version in versions.values()}
    refused: list[Outcome] = []
    for (version, question_id), group in groupby(wrong, lambda outcome: (outcome.sets.version, outcome.question)):
        question = next(each for each in chain(*questions_of_assignment.values()) if each.id == question_id)
        outcomes = list(group)
        replaced = _replaced(question, outcomes, substitutes[version].get(question_id, {}))
        if replaced is None:
            refused += outcomes
        else:
            substitutes[version][question_id] = replaced
            listed = "\n".join(f"  {outcome}" for outcome in outcomes)
            tqdm.write(f"other inputs are drawn in place of these; please report them:\n{listed}", sys.stderr)
    if refused:
        raise WrongVerdicts(refused)
    return {version: replaced for version, replaced in substitutes.items() if replaced}


def _replaced(question: Question, wrong: Sequence[Outcome], before: Mapping[int, int]) -> dict[int, int] | None:
    """A set for each one on which these answers differ, the one that it had before where that holds; None if none."""
    differing = sorted({*before, *(index for outcome in wrong for index in outcome.differing)})
    if len(differing) > MOST_REPLACED:
        return None
    chosen: dict[int, int] = {}
    for index in differing:
        candidates = [*([before[index]] if index in before else []), *range(POOL, 2 * POOL)]
        trials = (replace(wrong[0].sets, indices=[number]) for number in candidates if number not in chosen.values())
        holding = (sets for sets in trials if all(outcome.holds for outcome in verify([question], sets)))
        substitute = next(holding, None)
        if substitute is None:
            return None
        chosen[index] = substitute.indices[0]
    return chosen


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
