"""Notes who gave a score or a comment by hand: nbgrader itself keeps no name.

The note is in a table of ours in the gradebook, written in the transaction that enters the score. The formgrader loads
`nbgrader_config.py`, and so this module, in the process of whoever grades there.
"""

from __future__ import annotations

import getpass
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from ..course import Course

GRADER_VARIABLE = "LECTURE_GRADER"
TABLE = "lecture_marks"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (student TEXT, assignment TEXT, cell TEXT, what TEXT, score REAL, "
    "grader TEXT, time TEXT)"
)
_INSERT = (
    f"INSERT INTO {TABLE} SELECT s.student_id, a.name, b.name, ?, ?, ?, ? FROM submitted_notebook n "
    "JOIN submitted_assignment s ON n.assignment_id = s.id JOIN assignment a ON s.assignment_id = a.id, base_cell b "
    "WHERE n.id = ? AND b.id = ?"
)


def note_graders() -> None:
    """From here on note in this process who changes a score or comment by hand. A second call changes nothing."""
    from nbgrader.api import Comment, Grade
    from sqlalchemy import event

    for kind, listener in ((Grade, _grade_changed), (Comment, _comment_changed)):
        if not event.contains(kind, "after_update", listener):
            event.listen(kind, "after_update", listener)


def grader_name() -> str:
    """Who grades in this process: what LECTURE_GRADER says, else the account's name."""
    name = os.environ.get(GRADER_VARIABLE, "").strip()
    try:
        return name or getpass.getuser()
    except (KeyError, OSError):  # an account without a name, in a container for example
        return f"user {os.getuid()}"


def graders_of(gradebook: Any, assignment: str) -> dict[tuple[str, str], str]:
    """Student and cell -> who gave the score last."""
    from sqlalchemy import inspect, text

    if not inspect(gradebook.engine).has_table(TABLE):
        return {}
    marks = text(
        f"SELECT student, cell, grader FROM {TABLE} WHERE assignment = :name AND what = 'score' ORDER BY rowid"
    )
    return {(student, cell): grader for student, cell, grader in gradebook.db.execute(marks, {"name": assignment})}


def forget_marks(course: Course, student: str) -> None:
    """Delete who marked a student's answers."""
    with closing(sqlite3.connect(course.database)) as database, database:
        database.execute(_CREATE)
        database.execute(f"DELETE FROM {TABLE} WHERE student = ?", (student,))


def _grade_changed(_: Any, connection: Any, grade: Any) -> None:
    from sqlalchemy import inspect

    changes = inspect(grade).attrs
    changed = changes.manual_score.history.has_changes() or changes.extra_credit.history.has_changes()
    # A person looked at a score that waited for them, and left it.
    confirmed = changes.needs_manual_grade.history.has_changes() and not grade.needs_manual_grade
    if changed or (confirmed and grade.manual_score is not None):
        _note(connection, grade, "score", grade.manual_score)


def _comment_changed(_: Any, connection: Any, comment: Any) -> None:
    from sqlalchemy import inspect

    if inspect(comment).attrs.manual_comment.history.has_changes():
        _note(connection, comment, "comment", None)


def _note(connection: Any, entry: Any, what_changed: str, score: float | None) -> None:
    connection.exec_driver_sql(_CREATE)
    time = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    values = what_changed, score, grader_name(), time, entry.notebook_id, entry.cell_id
    connection.exec_driver_sql(_INSERT, values)
