"""What every student got for every question: points, state and what happened, from gradebook and journal together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..grading.states import State, state_of
from ..questions.verdict import UNANSWERED
from .row import Entry

BY_HAND, WAITING = "graded by hand", "waits for a person"
QUESTION_COLUMNS = (
    *("student", "assignment", "question", "state", "points", "maximum", "misconception", "what_happened"),
    "graded_by",
)
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
    graded_by: str = ""
    """Who gave the points by hand."""


def question_rows(entry: Entry) -> Iterator[QuestionRow]:
    """A row for every question of a student's assignment."""
    row = entry.row
    if row.score is None or entry.scores is None:
        for question, maximum in entry.maxima.items():
            yield QuestionRow(row.student, row.assignment, question, row.state, None, maximum, "", row.reason)
        return
    verdicts = entry.record.questions if entry.record is not None else {}
    for score in entry.scores.questions:
        verdict = verdicts.get(score.question)
        state: str = State.GRADED
        answered = score.auto_score != 0
        what_happened = "" if answered else "not answered"
        if verdict is not None:
            state = state_of({score.question: verdict})[0]
            answered = verdict["misconception"] != UNANSWERED
            messages = "; ".join(f"{part['name']}: {part['message']}" for part in verdict["parts"])
            what_happened = verdict["incident"] or messages
        if score.needs_manual_grade:
            state = WAITING
        elif score.manual_score is not None:
            state = BY_HAND
        # nbgrader's `score` is then 0, which would look like an answer that earned nothing.
        nothing_yet = score.manual_score is None and score.auto_score is None
        yield QuestionRow(
            row.student,
            row.assignment,
            score.question,
            state,
            None if nothing_yet else score.score,
            entry.maxima[score.question],
            (verdict or {}).get("misconception") or "",
            what_happened,
            answered,
            score.graded_by,
        )
