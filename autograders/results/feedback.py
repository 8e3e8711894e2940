"""A page for every student: nbgrader's feedback, or, where there is nothing to grade, the reason."""

from __future__ import annotations

import html
import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ..course import Course, CourseError
from ..files import write_text_atomically
from ..grading.journal import DamagedRecord, Record, read_record
from ..grading.states import SET_ASIDE, State
from ..intake.intake import submitted_students
from ..intake.notes import is_waiting, noted_students, read_note
from ..nbgrader.nbgrader_api import ConversionError, generate_feedback
from ..plain_text import plain
from ..writer import only_writer
from .banner import state_banner
from .page_inputs import PageInputs, is_current
from .safe_html import POLICY

_FAILED = "feedback failed"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title></head>
<body style="font-family:sans-serif;max-width:40em;margin:2em auto;padding:0 1em">
<h1>{title}</h1>{banner}
<p>Nothing was lost: your file is kept as you sent it. Hand in a corrected one, or talk to your instructor.</p>
</body></html>
"""


@dataclass(frozen=True)
class Pages:
    """The pages of a call: all of them, and how many were written because something had changed."""

    paths: list[Path]
    written: int


def write_feedback(
    course: Course,
    assignments: Sequence[str],
    students: Sequence[str] | None = None,
    *,
    progress: bool = True,
    workers: int = 1,
) -> Pages:
    """Write the feedback of every submission that was looked at, unless its page exists and is made from the same.

    `workers` pages are made at a time, each in a process of its own. A submission that could not be graded gets a page
    that says why. Raises CourseError, after the others' pages are written, when journal records are damaged.
    """
    with only_writer(course, "feedback"):
        return _write_all(course, assignments, students, progress, workers)


def _write_all(
    course: Course, assignments: Sequence[str], students: Sequence[str] | None, progress: bool, workers: int
) -> Pages:
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
                # A page shows no observations, and those of a large class do not fit into memory.
                todo += [replace(record, observations={})] if record is not None else []
    inputs = {assignment: PageInputs(course, assignment) for assignment in {record.assignment for record in todo}}
    endings = [inputs[record.assignment].ending(record.student) for record in todo]
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for worker in range(workers):
        free.put(worker)

    def write(record: Record, ending: str) -> bool:
        worker = free.get()
        try:
            return _write(course, record, ending, worker)
        finally:
            free.put(worker)

    # Threads only wait: each page is made in a process.
    executor = ThreadPoolExecutor(workers)
    try:
        done = executor.map(write, todo, endings)
        written = sum(tqdm(done, total=len(todo), desc="feedback", unit="page", disable=not progress))
    finally:
        executor.shutdown(cancel_futures=True)
    if damaged:
        raise CourseError("\n".join([f"{len(todo)} pages written; none for:", *damaged]))
    return Pages([_page(course, record) for record in todo], written)


def _page(course: Course, record: Record) -> Path:
    return course.notebook("feedback", record.assignment, record.student).with_suffix(".html")


def _write(course: Course, record: Record, ending: str, worker: int) -> bool:
    """Write a page, unless there is one that ends like this; says whether it was written."""
    assignment, student = record.assignment, record.student
    page = _page(course, record)
    if is_current(page, ending):
        return False
    state: str = record.state
    reason = record.reason
    note = read_note(course, assignment, student)
    if note is not None and note.held:
        state, reason = State.TO_CONFIRM, note.why_held
    elif record.questions and record.state not in SET_ASIDE:
        try:
            generate_feedback(course, assignment, student, ending, worker)
            return True
        except ConversionError as error:
            state, reason = _FAILED, str(error)
    title = html.escape(plain(f"{assignment} · {student}"))
    text = _PAGE.format(policy=POLICY, title=title, banner=state_banner(state, [reason]))
    # Making it may succeed the next time: a page that says why it failed is not kept.
    write_text_atomically(page, text if state == _FAILED else text + ending)
    return True
