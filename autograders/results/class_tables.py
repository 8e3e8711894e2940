"""The rows of a class as tables: CSV for the registrar, one line a student, and text for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from ..course import Course
from ..intake.roster import Roster
from ..plain_text import plain
from ..release.history import History
from ..tables import write_table
from .question_rows import QUESTION_COLUMNS, question_rows
from .row import COLUMNS, ScoreRow, points_text
from .rows import entries, not_placed


def write_csv(course: Course, assignments: Sequence[str]) -> list[ScoreRow]:
    """Write `grades.csv` (one row a student and assignment) and `questions.csv` (one row a question).

    In `grades.csv` the files come last that could not be placed, in rows without a student.
    """
    student_rows: list[ScoreRow] = []

    def question_lines() -> Iterator[Sequence[Any]]:
        yield [name.replace("_", " ") for name in QUESTION_COLUMNS]
        for entry in entries(course, assignments):
            student_rows.append(entry.row)
            yield from map(attrgetter(*QUESTION_COLUMNS), question_rows(entry))

    write_table(course.root / "questions.csv", question_lines())
    everything = [*student_rows, *not_placed(course)]
    write_table(course.grades, [COLUMNS, *map(attrgetter(*COLUMNS), everything)])
    return everything


def write_wide(course: Course, student_rows: Sequence[ScoreRow]) -> Path:
    """Write `grades-wide.csv`: a row a student with what the roster knows of them, a score and a state an assignment.

    An empty score is none, and the state says why; the total is the sum of the scores that there are.
    """
    people = Roster(course)
    by_student: dict[str, dict[str, ScoreRow]] = defaultdict(dict)
    for row in student_rows:
        if row.student:
            by_student[row.student][row.assignment] = row
    names = sorted({row.assignment for row in student_rows if row.assignment})
    columns = [column for name in names for column in (name, f"{name}: state")]
    lines: list[list[Any]] = [["student", "name", "email", "lms_id", *columns, "total"]]
    for student, own in sorted(by_student.items()):
        cells = [cell for name in names for cell in (own[name].score, str(own[name].state))]
        total = sum(row.score for row in own.values() if row.score is not None)
        person = people.names.get(student, ""), people.emails.get(student, ""), people.lms_ids.get(student, "")
        lines.append([student, *person, *cells, total])
    path = course.root / "grades-wide.csv"
    write_table(path, lines)
    return path


def table(student_rows: Sequence[ScoreRow]) -> str:
    """The rows as a text table."""
    lines = [("student", "assignment", "state", "score", "of", "by hand", "")]
    for row in student_rows:
        score = "–" if row.score is None else points_text(row.score)
        maximum = "" if row.max_score is None else points_text(row.max_score)
        waiting = f"{row.by_hand_open} open" if row.by_hand_open else ""
        lines.append((row.student, row.assignment, row.state, score, maximum, waiting, row.reason[:60]))
    return text_table(lines)


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text, with columns as wide as their longest cell; the last one may be of any length."""
    lines = [[plain(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def releases_in_use(student_rows: Sequence[ScoreRow], history: History) -> list[str]:
    """Where an assignment has had several releases: how many submissions were made from which, a line each."""
    counts = Counter((row.assignment, row.release) for row in student_rows if row.release)
    return [
        f"{assignment}: {count} made from {release}"
        for (assignment, release), count in counts.items()
        if len(history.get(assignment, ())) > 1
    ]
