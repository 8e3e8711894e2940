"""A page for every student: nbgrader's feedback, or, where there is nothing to grade, the reason."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from .course import Course
from .files import write_text_atomically
from .intake import submitted_students
from .journal import look_up
from .nbgrader_api import ConversionError, generate_feedback
from .readable import state_banner
from .writer import only_writer

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family:sans-serif;max-width:40em;margin:2em auto;padding:0 1em">
<h1>{title}</h1>{banner}
<p>Nothing was lost: your file is kept as you sent it. Hand in a corrected one, or talk to your instructor.</p>
</body></html>
"""


def write_feedback(
    course: Course,
    assignments: Sequence[str],
    students: Sequence[str] | None = None,
    *,
    progress: bool = True,
) -> list[Path]:
    """Write the feedback of every submission that was looked at; returns the pages.

    A submission that could not be graded gets a page that says why.
    """
    with only_writer(course, "feedback"):
        return _write_all(course, assignments, students, progress)


def _write_all(
    course: Course, assignments: Sequence[str], students: Sequence[str] | None, progress: bool
) -> list[Path]:
    from tqdm import tqdm

    todo = [
        (assignment, student)
        for assignment in assignments
        for student in submitted_students(course, assignment)
        if (students is None or student in students) and look_up(course, assignment, student) is not None
    ]
    return [
        _write(course, assignment, student)
        for assignment, student in tqdm(todo, desc="feedback", unit="page", disable=not progress)
    ]


def _write(course: Course, assignment: str, student: str) -> Path:
    page = course.notebook("feedback", assignment, student).with_suffix(".html")
    record = look_up(course, assignment, student)
    assert record is not None  # the caller asked for those that have one
    state, reason = record.state, record.reason
    if record.questions:
        try:
            generate_feedback(course, assignment, student)
            return page
        except ConversionError as error:
            state, reason = "feedback failed", str(error)
    title = html.escape(f"{assignment} · {student}")
    write_text_atomically(page, _PAGE.format(title=title, banner=state_banner(state, [reason])))
    return page
