"""Gives one student more time for an assignment: in nbgrader's gradebook, and at once in the penalty."""

from __future__ import annotations

import logging
import warnings
from datetime import datetime
from typing import Any

from .. import notebooks
from ..course import Course, CourseError
from ..grading.journal import look_up
from ..intake.roster import Roster, is_path_safe
from ..intake.times import due_dates, has_zone, parse_time
from ..nbgrader.database import open_gradebook
from ..writer import only_writer

NEVER = "none"
"""Takes an extension back."""


def extend(course: Course, student: str, assignment: str, until: str) -> str:
    """Extend a student's due date, or take the extension back; returns what holds now, in words.

    Args: the course, the student's id, the assignment, and the new due date with its zone, such as
    `2026-03-08 23:59 +0100`, or `none`.

    nbgrader keeps the difference to the due date, so the extension moves with a due date that is changed later. The
    penalty of a submission that was graded is computed again.

    Raises CourseError when the assignment has no due date or was not released, the time is none or not after the due
    date, or nobody has this id.
    """
    from sqlalchemy.exc import SAWarning

    course.require_release(assignment)
    time = None if until == NEVER else _time(until)
    is_enrolled = student in Roster(course) or course.step("submitted", student).is_dir()
    if not (is_path_safe(student) and is_enrolled):
        raise CourseError(f"nobody has the id {student!r}: `autograde gradebook` lists the class. Nothing was written.")
    due = due_dates(course).get(assignment)
    with only_writer(course, "extend"):
        with open_gradebook(course) as gradebook:
            entry = gradebook.find_assignment(assignment)
            # A changed due date is entered by grading, which then renews everybody's penalty.
            base = due.date if due is not None else entry.duedate
            if base is None:
                raise CourseError(
                    f"{assignment} has no due date, so nothing is late: enter one in {course.root / 'assignments.csv'} "
                    "first. Nothing was written."
                )
            if time is not None and time <= base:
                raise CourseError(
                    f"{until!r} is not after the due date, {base:%Y-%m-%d %H:%M} UTC. Nothing was written."
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SAWarning)  # as in nbgrader_api
                gradebook.update_or_create_student(student)
                submission = gradebook.update_or_create_submission(assignment, student)
            submission.extension = None if time is None else time - base
            gradebook.db.commit()
        record = look_up(course, assignment, student)
        if record is not None and record.questions:
            _penalise_again(course, assignment, student)
    kind = "the due date" if time is None else "an extended due date"
    return f"{student}, {assignment}: {kind}, {time or base:%Y-%m-%d %H:%M} UTC"


def _time(text: str) -> datetime:
    time = parse_time(text)
    if time is None or not has_zone(text):
        raise CourseError(f"{text!r} is not a time; write 2026-03-08 23:59 +0100, with the zone. Nothing was written.")
    return time


def _penalise_again(course: Course, assignment: str, student: str) -> None:
    """Let nbgrader compute the penalty of a graded submission anew."""
    from ..nbgrader.configuration import configuration
    from ..nbgrader.late_penalties import LatePenalties

    log = logging.getLogger("autograders.nbgrader")
    log.propagate = False
    names = {"assignment": assignment, "student": student, "notebook": assignment, "db_url": course.gradebook}
    resources: dict[str, Any] = {"nbgrader": names}
    step = LatePenalties(config=configuration(course), log=log)
    step(notebooks.read(course.notebook("autograded", assignment, student)), resources)
