"""What every student got for every question: points, state and what happened, from gradebook and journal together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..course import Course
from ..grading.journal import look_up
from ..grading.states import State, state_of
from ..nbgrader.database import open_gradebook
from ..questions.verdict import UNANSWERED

if TYPE_CHECKING:
    from .gradebook import Row

BY_HAND, WAITING = "graded by hand", "waits for a person"
QUESTION_COLUMNS = ("student", "assignment", "question", "state", "points", "maximum", "misconception", "what_happened")
"""What of a row a table has, in order."""


@dataclass(frozen=True)
class QuestionRow:
    """One student and one question. Without a score the state is the submission's, and says why."""

    student: str
    assignment: str
    question: str
    state: str
    points: float | None
    maximum: float
    misconception: str
    what_happened: str
    answered: bool = True
    """Whether anything was answered, as far as that can be told without reading it."""


def question_rows(course: Course, rows: Sequence[Row]) -> Iterator[QuestionRow]:
    """A row for every row of the gradebook and every question of its assignment."""
    with open_gradebook(course) as gradebook:
        maxima = {name: _maxima(gradebook, name) for name in {row.assignment for row in rows}}
        for row in rows:
            if row.score is None:
                for question, maximum in maxima[row.assignment].items():
                    yield QuestionRow(row.student, row.assignment, question, row.state, None, maximum, "", row.reason)
            else:
                yield from _graded(course, gradebook, row)


def _maxima(gradebook: Any, assignment: str) -> dict[str, float]:
    notebooks = gradebook.find_assignment(assignment).notebooks
    return {_question(cell.name): float(cell.max_score) for notebook in notebooks for cell in notebook.grade_cells}


def _question(cell_name: str) -> str:
    return cell_name.removesuffix("-test")


def _graded(course: Course, gradebook: Any, row: Row) -> Iterator[QuestionRow]:
    record = look_up(course, row.assignment, row.student)
    verdicts = record.questions if record is not None else {}
    for notebook in gradebook.find_submission(row.assignment, row.student).notebooks:
        for grade in notebook.grades:
            question = _question(grade.name)
            verdict = verdicts.get(question)
            state: str = State.GRADED
            answered = grade.auto_score != 0
            what_happened = "" if answered else "not answered"
            if verdict is not None:
                state = state_of({question: verdict})[0]
                answered = verdict["misconception"] != UNANSWERED
                messages = "; ".join(f"{part['name']}: {part['message']}" for part in verdict["parts"])
                what_happened = verdict["incident"] or messages
            if grade.needs_manual_grade:
                state = WAITING
            elif grade.manual_score is not None:
                state = BY_HAND
            # nbgrader's `score` is then 0, which would look like an answer that earned nothing.
            nothing_yet = grade.manual_score is None and grade.auto_score is None
            yield QuestionRow(
                row.student,
                row.assignment,
                question,
                state,
                None if nothing_yet else float(grade.score),
                float(grade.max_score),
                (verdict or {}).get("misconception") or "",
                what_happened,
                answered,
            )
