"""A page for every student: nbgrader's feedback, or, where there is nothing to grade, the reason."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from ..course import Course, CourseError
from ..files import write_text_atomically
from ..grading.journal import DamagedRecord, Record, read_record
from ..grading.states import State
from ..intake.intake import submitted_students
from ..intake.notes import is_waiting, noted_students, read_note
from ..nbgrader.nbgrader_api import ConversionError, generate_feedback
from ..plain_text import plain
from ..writer import only_writer
from .banner import state_banner
from .safe_html import POLICY

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title></head>
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

    A submission that could not be graded gets a page that says why. Raises CourseError, after the others' pages are
    written, when journal records are damaged.
    """
    with only_writer(course, "feedback"):
        return _write_all(course, assignments, students, progress)


def _write_all(
    course: Course, assignments: Sequence[str], students: Sequence[str] | None, progress: bool
) -> list[Path]:
    from tqdm import tqdm

    todo: list[Record] = []
    damaged: list[str] = []
    for assignment in assignments:
        for student in sorted({*submitted_students(course, assignment), *noted_students(course, assignment)}):
            if students is not None and student not in students:
                continue
            try:
                record = read_record(course, assignment, student)
            except DamagedRecord as error:
                damaged.append(str(error))
            else:
                waits = record is None and is_waiting(course, assignment, student)
                todo += [Record(student, assignment, None, "", State.TO_CONFIRM)] if waits else []
                todo += [record] if record is not None else []
    pages = [_write(course, record) for record in tqdm(todo, desc="feedback", unit="page", disable=not progress)]
    if damaged:
        raise CourseError("\n".join([f"{len(pages)} pages written; none for:", *damaged]))
    return pages


def _write(course: Course, record: Record) -> Path:
    assignment, student = record.assignment, record.student
    page = course.notebook("feedback", assignment, student).with_suffix(".html")
    state: str = record.state
    reason = record.reason
    note = read_note(course, assignment, student)
    if note is not None and note.held:
        state, reason = State.TO_CONFIRM, note.why_held
    elif record.questions:
        try:
            generate_feedback(course, assignment, student)
            return page
        except ConversionError as error:
            state, reason = "feedback failed", str(error)
    title = html.escape(plain(f"{assignment} · {student}"))
    write_text_atomically(page, _PAGE.format(policy=POLICY, title=title, banner=state_banner(state, [reason])))
    return page
