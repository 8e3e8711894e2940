"""Tries the bank of answers on a course's own hidden inputs before students get its notebooks."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tqdm import tqdm

from .. import notebooks
from ..questions.question import Question, questions_of
from ..questions.seeds import POOL, Substitutes
from ..questions.verify import Outcome, Sets, count, verify
from ..setting import ANSWERS, ROOT

MOST_REPLACED = POOL // 2  # sets of a question: beyond that its grader errs too often to be trusted on any


class WrongVerdicts(RuntimeError):  # noqa: N818 - what was found, not a fault of the caller
    """Answers of the bank that do not get what they declare on this course's inputs, and no other inputs can be drawn.

    Args:
        outcomes: what each of these answers got.
        handed_in: whether students' work was graded, or will be, on the inputs as they are.

    """

    def __init__(self, outcomes: Sequence[Outcome], handed_in: bool = False) -> None:
        listed = "\n".join(f"  {outcome}" for outcome in outcomes)
        if not any(len(outcome.differing) < len(outcome.results) for outcome in outcomes):
            remedy = (
                "They differ on every set, so other inputs would not help. `autograde verify --question ID` shows "
                f"why; mend the answer in {ANSWERS.relative_to(ROOT)} or the question's description."
            )
        else:
            # Right on other inputs: the grader errs on some, and neither author nor instructor wrote what is wrong.
            why = (
                "students have handed in already, and their inputs must not change"
                if handed_in
                else f"more than {MOST_REPLACED} of {POOL} sets err, no other set holds, or a process ended"
            )
            remedy = f"Please report these lines. No other inputs are drawn for a question where {why}. "
            remedy += "`--skip-verify` releases it as it is."
        super().__init__(
            f"answers of the bank ({len(outcomes)}) do not get what they declare on this course's hidden inputs, so a "
            f"grader would err on students' answers too. Nothing was written.\n{listed}\n{remedy}"
        )


def verify_on(
    secret: bytes,
    versions: Mapping[str, str],
    before: Substitutes,
    *,
    handed_in: Container[str] = (),
    progress: bool = True,
) -> Substitutes:
    """Run every answer to the questions of these assignments on all sets of inputs that the course can draw.

    A set on which an answer does not get what it declares is replaced by the next one on which all do; a message says
    so.

    Args:
        secret: the course's.
        versions: assignment -> the version that is to be released.
        before: the sets that earlier releases of the course replaced.
        handed_in: assignments whose inputs must not change any more.
        progress: show how far the bank is.

    Returns the sets that are replaced in these versions. Raises WrongVerdicts, which names each answer and the sets,
    where an answer differs on more than MOST_REPLACED sets, where none of the next POOL sets holds, where a process
    ended or ran out of time, and where students have handed in.

    """
    questions_of_assignment = {name: [question.of_course(secret) for question in _questions(name)] for name in versions}
    total = sum(map(count, questions_of_assignment.values()))
    substitutes = {version: {**before.get(version, {})} for version in versions.values()}
    refused: list[Outcome] = []
    settled = False
    messages: list[str] = []
    with tqdm(total=total, desc="verifying graders", unit="answer", disable=not progress) as bar:
        for name, questions in questions_of_assignment.items():
            replaced = substitutes[versions[name]]
            wrong: dict[str, list[Outcome]] = {}
            for outcome in _outcomes(questions, Sets(secret, versions[name]), replaced):
                bar.update()
                if not outcome.holds:
                    wrong.setdefault(outcome.question, []).append(outcome)
            for question in (question for question in questions if question.id in wrong):
                outcomes = wrong[question.id]
                more = None if name in handed_in else _others(question, outcomes, replaced.get(question.id, {}))
                if more is None:
                    refused += outcomes
                    settled |= name in handed_in
                    continue
                replaced[question.id] = {**replaced.get(question.id, {}), **more}
                sets = ", ".join(f"set {index} is replaced by set {number}" for index, number in more.items())
                messages.append("\n".join([f"{question.id}: {sets}; please report:", *map("  {}".format, outcomes)]))
    if refused:
        raise WrongVerdicts(refused, handed_in=settled)
    for message in messages:  # not before it is known that this is what happens
        tqdm.write(message, sys.stderr)
    return {version: replaced for version, replaced in substitutes.items() if replaced}


def _outcomes(
    questions: Sequence[Question], sets: Sets, replaced: Mapping[str, Mapping[int, int]]
) -> Iterator[Outcome]:
    """Every answer on the sets that the course gives out."""
    yield from verify([question for question in questions if question.id not in replaced], sets)
    for question in (question for question in questions if question.id in replaced):
        yield from verify([question], replace(sets, indices=[replaced[question.id].get(i, i) for i in range(POOL)]))


def _others(question: Question, wrong: Sequence[Outcome], before: Mapping[int, int]) -> dict[int, int] | None:
    """Set of the pool -> another one, for the sets on which these answers differ; None where there are not enough."""
    # A process that was killed, or had no time, says nothing about the inputs.
    if any(result.incident for outcome in wrong for result in outcome.results):
        return None
    erring = {number for outcome in wrong for number in outcome.differing}
    indices = [index for index in range(POOL) if before.get(index, index) in erring]
    if len(indices) > MOST_REPLACED:
        return None
    taken = {*before.values(), *erring}
    holding = (
        number
        for number in range(POOL, 2 * POOL)
        if number not in taken
        and all(outcome.holds for outcome in verify([question], replace(wrong[0].sets, indices=[number])))
    )
    more = dict(zip(indices, holding, strict=False))
    return more if len(more) == len(indices) else None


def chosen_variants(secret: bytes, assignments: Iterable[str], *, contents: bool = False) -> Iterator[str]:
    """A line for each question of these assignments that is not the same in every course.

    Args:
        secret: the course's, which chooses.
        assignments: their names.
        contents: also what is special about the chosen variant, which is the answer.

    """
    for question in (question for name in assignments for question in _questions(name)):
        if chosen := question.of_course(secret).variant:
            about = f": {chosen.about}" if contents else ""
            yield f"{question.id} has {chosen.name} of {len(question.variants)} in this course{about}"


def _questions(assignment: str) -> list[Question]:
    nb = notebooks.read(notebooks.master_path(assignment))
    return list(questions_of([cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in nb.cells]))
