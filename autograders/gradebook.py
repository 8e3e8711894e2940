"""What the gradebook holds: as a table, as CSV for the registrar, and compared with a simulated class."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from .course import Course, CourseError
from .files import write_text_atomically
from .intake import submitted_students
from .journal import look_up
from .nbgrader_api import put_scripts_on_path
from .published import which_release
from .question_rows import QuestionRow, question_rows
from .roster import Roster
from .states import GRADED, LATE, MISSING, NOT_GRADED, lateness


@dataclass(frozen=True)
class Row:
    """One student and one assignment: always there, always with a state and, where it is not plain, its reason."""

    student: str
    assignment: str
    state: str
    score: float | None
    max_score: float | None
    auto_score: float | None
    by_hand_open: int
    """How many questions still wait for a person."""
    attempts: int
    reason: str
    release: str = ""
    """Which release the submission says it was made from."""


@contextlib.contextmanager
def open_gradebook(course: Course) -> Iterator[Any]:
    """nbgrader's gradebook of a course. Raises CourseError when there is none, or one that cannot be read."""
    from nbgrader.api import Gradebook
    from sqlalchemy.exc import DatabaseError

    if not (course.root / "gradebook.db").is_file():
        raise CourseError(f"{course.root} holds no gradebook: run `autograde release` first.")
    put_scripts_on_path()
    try:
        gradebook = Gradebook(course.gradebook)
    except DatabaseError as error:
        raise CourseError(f"{course.root / 'gradebook.db'} cannot be read: {error.orig}. Put a copy back.") from None
    with gradebook:
        yield gradebook


def roster(course: Course) -> list[str]:
    """The students of the roster, or, without one, everybody who handed in anything."""
    if not course.roster.exists():
        return sorted({path.name for path in course.step("submitted", "").glob("*") if path.is_dir()})
    return sorted(Roster(course).names)


def rows(course: Course, assignments: Sequence[str]) -> list[Row]:
    """A row for every student of the roster (and whoever handed in besides) and every assignment."""
    result = []
    known = Roster(course)
    enrolled = roster(course)
    with open_gradebook(course) as gradebook:
        for assignment in assignments:
            students = sorted({*enrolled, *submitted_students(course, assignment)})
            for student in students:
                row = _row(course, gradebook, assignment, student)
                unknown = known.unknown(student)
                result.append(replace(row, reason="; ".join(filter(None, [row.reason, unknown]))))
    return result


def _row(course: Course, gradebook: Any, assignment: str, student: str) -> Row:
    from nbgrader.api import MissingEntry

    record = look_up(course, assignment, student)
    if record is None:
        handed_in = course.step("submitted", student, assignment).is_dir()
        state, reason = (NOT_GRADED, "run `autograde grade`") if handed_in else (MISSING, "nothing was handed in")
        return Row(student, assignment, state, None, None, None, 0, 0, reason)
    attempts = len(record.earlier) + 1
    release = which_release(course.root, assignment, record.submitted_version, record.submitted_release)
    reasons = [record.reason, *record.notes]
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        submission = None
    late = lateness(submission.total_seconds_late, submission.late_submission_penalty) if submission else ""
    reason = "; ".join(filter(None, [*reasons, late]))
    if submission is None or not record.questions:
        return Row(student, assignment, record.state, None, None, None, 0, attempts, reason)
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    return Row(
        student,
        assignment,
        LATE if late and record.state == GRADED else record.state,
        float(submission.score - submission.late_submission_penalty),
        float(submission.max_score),
        float(sum(grade.auto_score or 0.0 for grade in grades)),
        sum(bool(grade.needs_manual_grade) for grade in grades),
        attempts,
        reason,
        release,
    )


def question_points(course: Course, assignment: str, student: str) -> dict[str, float | None]:
    """The automatic points of each test cell in nbgrader's gradebook, by question id."""
    with open_gradebook(course) as gradebook:
        submission = gradebook.find_submission(assignment, student)
        return {
            grade.name.removesuffix("-test"): grade.auto_score
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.name.endswith("-test")
        }


def write_csv(course: Course, assignments: Sequence[str]) -> list[Row]:
    """Write `grades.csv` (one row a student and assignment) and `questions.csv` (one row a question)."""
    found = rows(course, assignments)
    header = [field.name for field in fields(Row)]
    write_text_atomically(course.grades, _csv([header, *map(astuple, found)]))
    names = [field.name.replace("_", " ") for field in fields(QuestionRow)]
    questions = map(astuple, question_rows(course, found))
    write_text_atomically(course.root / "questions.csv", _csv([names, *questions]))
    return found


def table(found: Sequence[Row]) -> str:
    """The rows as a text table."""
    lines = [("student", "assignment", "state", "score", "of", "by hand", "")]
    for row in found:
        score = "–" if row.score is None else f"{row.score:g}"
        maximum = "" if row.max_score is None else f"{row.max_score:g}"
        waiting = f"{row.by_hand_open} open" if row.by_hand_open else ""
        lines.append((row.student, row.assignment, row.state, score, maximum, waiting, row.reason[:60]))
    return text_table(lines)


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text, with columns as wide as their longest cell; the last one may be of any length."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def compare_known(course: Course) -> tuple[int, list[str]]:
    """How many known scores a simulated class has, and where the gradebook or a misconception differs from them."""
    differences = []
    with course.known.open(encoding="utf-8", newline="") as file:
        known = list(csv.DictReader(file))
    points: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in known:
        student, assignment, question = row["student"], row["assignment"], row["question"]
        record = look_up(course, assignment, student)
        if record is None or not record.questions:
            differences.append(f"{student}, {question}: no score ({record.reason if record else 'not graded'})")
            continue
        key = (assignment, student)
        if key not in points:
            points[key] = question_points(course, assignment, student)
        found, misconception = points[key].get(question), record.questions[question]["misconception"] or ""
        if found != float(row["points"]) or misconception != row["misconception"]:
            differences.append(
                f"{student}, {question} ({row['answer']}): {found} points, {misconception or 'no misconception'}; "
                f"known: {row['points']}, {row['misconception'] or 'none'}"
            )
    return len(known), differences


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
