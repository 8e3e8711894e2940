"""Grades one submission: where the gradebook is, or in two halves, run elsewhere and entered here."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nbformat
from nbformat import NotebookNode

from ..course import Course, CourseError
from ..files import write_text_atomically
from ..intake.intake import Unreadable, stage, submission_digest
from ..nbgrader.database import open_gradebook
from ..nbgrader.gradebook_lock import GradebookLocked, causes, refuse_lock
from ..nbgrader.nbgrader_api import ConversionError, autograde, put_in_place
from ..notebooks import STAMP, as_text
from ..plain_text import plain
from ..reasons import Kind, Reason
from .journal import Record
from .states import State, state_of

# Nobody's submission can be graded then, so the run stops; any other error sets one submission aside.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_DATABASE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


@dataclass(frozen=True)
class Outcome:
    """The result of grading one submission: plain data, so that it can come from another process or machine."""

    state: State
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    """What was repaired when it was read."""
    seconds: float = 0.0
    received: str | None = None
    """The notebook as it was read, when it was graded elsewhere and is not in the gradebook yet."""
    executed: str | None = None
    """The same notebook, run and judged."""


def grade_here(course: Course, assignment: str, student: str) -> Outcome:
    """Run, judge and enter one submission. Raises CourseError when the disk is full."""

    def work() -> Sequence[str]:
        notes = stage(course, assignment, student)
        autograde(course, assignment, student)
        return notes

    return _outcome(course, assignment, student, work)


def execute(course: Course, assignment: str, student: str) -> Outcome:
    """Run and judge one submission in a course folder without anybody's scores; the notebooks come with the outcome.

    Raises CourseError when the disk is full.
    """

    def work() -> Sequence[str]:
        notes = stage(course, assignment, student)
        autograde(course, assignment, student, saving=False)
        return notes

    outcome = _outcome(course, assignment, student, work)
    if outcome.state != State.GRADED:
        return outcome
    received, executed = (
        course.notebook(step, assignment, student).read_text("utf-8") for step in ("received", "autograded")
    )
    return replace(outcome, received=received, executed=executed)


def enter(course: Course, assignment: str, student: str, outcome: Outcome) -> Outcome:
    """Enter what `execute` made into the gradebook and in its place. Raises CourseError when the disk is full."""
    received, executed = outcome.received, outcome.executed
    if received is None or executed is None:
        return outcome

    def work() -> Sequence[str]:
        write_text_atomically(course.notebook("received", assignment, student), received)
        staged = course.staged / student / assignment / f"{assignment}.ipynb"
        try:
            write_text_atomically(staged, _save(course, assignment, student, executed))
            put_in_place(course, "autograded", assignment, student)
        finally:
            shutil.rmtree(course.staged, ignore_errors=True)
        return outcome.notes

    return replace(_outcome(course, assignment, student, work), seconds=outcome.seconds)


def _save(course: Course, assignment: str, student: str, executed: str) -> str:
    """Save the scores of a notebook that was judged; returns the notebook with what is to be noted in it.

    nbgrader's converter also copies the notebook at each step; that was done where the notebook was run.
    """
    from sqlalchemy.exc import SAWarning

    from ..nbgrader.configuration import configuration, steps_of_grading

    config, log = configuration(course), logging.getLogger("autograders.nbgrader")
    log.propagate = False
    nb: NotebookNode = nbformat.reads(executed, as_version=4)
    names = {"assignment": assignment, "student": student, "notebook": assignment, "db_url": course.gradebook}
    resources: dict[str, Any] = {"nbgrader": names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # as in nbgrader_api
        with open_gradebook(course) as gradebook:
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission(assignment, student)
        for step in steps_of_grading(config)[1]:
            nb, resources = step(config=config, log=log)(nb, resources)
    return as_text(nb)


def _outcome(course: Course, assignment: str, student: str, work: Callable[[], Sequence[str]]) -> Outcome:
    started = time.monotonic()
    try:
        notes = tuple(map(plain, work()))
    except Unreadable as error:
        return _unreadable(error)
    except GradebookLocked:
        raise
    except Exception as error:
        # One submission must not stop the class, whatever is wrong with it; a person looks at it. What concerns
        # everybody is known by the exception's type: its text may quote the submission.
        refuse_lock(error, course.database)
        if isinstance(error.__cause__, Unreadable):
            return _unreadable(error.__cause__)
        reason = str(error) if isinstance(error, ConversionError) else f"{type(error).__name__}: {error}"
        if any(_is_of_the_disk(cause) for cause in causes(error)):
            raise CourseError(
                f"cannot write while grading {student}, {assignment} ({reason[:200]}). Make room, then run the same "
                "command again: what was finished is kept, and it goes on from there."
            ) from None
        return Outcome(State.FAILED, (Reason(Kind.OTHER, plain(" ".join(reason[:500].split()))),))
    return Outcome(State.GRADED, (), notes, round(time.monotonic() - started, 2))


def _unreadable(error: Unreadable) -> Outcome:
    return Outcome(State.UNREADABLE, tuple(replace(reason, text=plain(reason.text)) for reason in error.reasons))


def _is_of_the_disk(error: BaseException) -> bool:
    """Whether there is no room to write, or no writing at all."""
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DATABASE
    return isinstance(error, OSError) and error.errno in _DISK


def record_of(
    course: Course, assignment: str, student: str, digest: str | None, version: str, outcome: Outcome
) -> Record:
    """The journal record of a submission whose outcome is in the gradebook.

    `digest` is that of the submission before it was graded: one that was replaced meanwhile is graded again.
    """
    record = Record(student, assignment, digest, version, outcome.state, outcome.reasons)
    if outcome.state != State.GRADED:
        return record
    record.seconds = outcome.seconds
    # Not by nbformat, which checks the whole notebook again.
    stamp = json.loads(course.notebook("autograded", assignment, student).read_bytes())["metadata"][STAMP]
    record.questions = dict(stamp["verdicts"])
    record.observations = dict(stamp["observations"])
    record.inputs, record.pool = dict(stamp["inputs"]), stamp["pool"]
    record.answers, record.cell_seconds = dict(stamp["answers"]), dict(stamp["cell_seconds"])
    record.notes = [*outcome.notes, *stamp.get("notes", [])]
    record.submitted_version, record.submitted_release = stamp.get("submitted_version"), stamp.get("submitted_release")
    record.state, record.reasons = state_of(record.questions, stamp.get("incidents", ()))
    if submission_digest(course, assignment, student) != digest:
        text = "another file was handed in while this one was graded: grade again"
        record.state, record.reasons = State.FAILED, (Reason(Kind.OTHER, text),)
    return record
