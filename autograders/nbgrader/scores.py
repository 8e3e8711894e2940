"""The scores of a whole assignment, from nbgrader's gradebook in one query: its own properties ask anew for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from .graders import graders_of


@dataclass(frozen=True)
class QuestionScore:
    """What the gradebook has of one student's answer to one question."""

    question: str
    auto_score: float | None
    manual_score: float | None
    score: float
    """The manual score, else the automatic one, with extra credit; 0 without any."""
    needs_manual_grade: bool
    graded_by: str = field(default="", repr=False)
    """Who gave the manual score, as far as it was noted. Not in the text from which a page's digest is made."""


@dataclass
class SubmissionScores:
    """What the gradebook has of one submission; its times are UTC without a zone."""

    timestamp: datetime | None
    due: datetime | None
    """Without the student's extension."""
    extension: timedelta | None
    late_submission_penalty: float = 0.0
    questions: list[QuestionScore] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The sum over the questions, before the penalty."""
        return sum(question.score for question in self.questions)


def question_of(cell_name: str) -> str:
    """The id of the question that a cell with an nbgrader id belongs to."""
    return cell_name.removesuffix("-test").removesuffix("-question")


def maxima(gradebook: Any, assignment: str) -> dict[str, float]:
    """What each question of an assignment is worth, in the notebook's order, empty without the assignment."""
    from nbgrader.api import MissingEntry

    try:
        notebooks = gradebook.find_assignment(assignment).notebooks
    except MissingEntry:
        return {}
    return {question_of(cell.name): float(cell.max_score) for notebook in notebooks for cell in notebook.grade_cells}


def scores_of(gradebook: Any, assignment: str, student: str | None = None) -> dict[str, SubmissionScores]:
    """Every submission of an assignment, or that of one student; none where nbgrader has no such assignment."""
    from nbgrader.api import Assignment, BaseCell, Grade, SubmittedAssignment, SubmittedNotebook
    from sqlalchemy import select

    submissions = select(
        SubmittedAssignment.student_id,
        SubmittedAssignment.timestamp,
        SubmittedAssignment.extension,
        Assignment.duedate,
        SubmittedNotebook.id,
        SubmittedNotebook.late_submission_penalty,
    ).join_from(SubmittedAssignment, Assignment)
    submissions = submissions.outerjoin(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
    sought = [Assignment.name == assignment]
    if student is not None:
        sought.append(SubmittedAssignment.student_id == student)
    scores: dict[str, SubmissionScores] = {}
    student_of: dict[str, str] = {}
    for owner, timestamp, extension, due, notebook, penalty in gradebook.db.execute(submissions.where(*sought)):
        submission = scores.setdefault(owner, SubmissionScores(timestamp, due, extension))
        submission.late_submission_penalty += penalty or 0.0
        student_of[notebook] = owner
    graders = graders_of(gradebook, assignment)
    grades = (
        select(
            Grade.notebook_id,
            BaseCell.name,
            Grade.auto_score,
            Grade.manual_score,
            Grade.score,
            Grade.needs_manual_grade,
        )
        .join_from(Grade, BaseCell, Grade.cell_id == BaseCell.id)
        .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
        .where(*sought)
    )
    for notebook, cell, auto_score, manual_score, score, waits in gradebook.db.execute(grades):
        owner = student_of[notebook]
        by = graders.get((owner, cell), "") if manual_score is not None else ""
        question = QuestionScore(question_of(cell), auto_score, manual_score, float(score), bool(waits), by)
        scores[owner].questions.append(question)
    order = {question: number for number, question in enumerate(maxima(gradebook, assignment))}
    for submission in scores.values():
        submission.questions.sort(key=lambda score: order[score.question])
    return scores
