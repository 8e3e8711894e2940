"""Grades what was submitted: nbgrader's converter and gradebook, our kernel, judge and journal around it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import notebooks
from .course import Course, CourseError
from .course_check import check_course
from .gradebook import open_gradebook
from .intake import Unreadable, stage, submission_digest, submitted_students
from .journal import Record, look_up, write_record
from .nbgrader_api import ConversionError, autograde
from .notebooks import STAMP
from .sandbox.consent import with_consent
from .seeds import read_secret
from .states import FAILED, GRADED, INCIDENTS, SET_ASIDE, UNREADABLE, state_of
from .times import due_dates
from .writer import only_writer

_DISK = ("No space left on device", "Disk quota exceeded", "disk is full", "Read-only file system", "disk I/O error")


@dataclass
class Summary:
    """What a grading run did: submissions by state, those already done, and the reasons of those with an incident."""

    states: Counter[str] = field(default_factory=Counter)
    already: int = 0
    set_aside: list[Record] = field(default_factory=list)
    incidents: list[Record] = field(default_factory=list)

    def __str__(self) -> str:
        done = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "nothing to do"
        rows = [f"{done}; {self.already} were already done"]
        rows += [f"  set aside: {r.student}, {r.assignment}: {r.reason}" for r in self.set_aside]
        rows += [f"  {r.state}: {r.student}, {r.assignment}: {r.reason}" for r in self.incidents]
        return "\n".join(rows)


def grade(
    course: Course,
    assignments: Sequence[str],
    students: Sequence[str] | None = None,
    *,
    force: bool = False,
    progress: bool = True,
) -> Summary:
    """Grade every submission that the journal does not have yet.

    A submission that cannot be read or graded is set aside with its reason; the others are graded. `force` grades
    again what is done. Raises CourseError when an assignment was not released, when another command is writing, when
    there is no sandbox and nobody has acknowledged that, or when the disk is full; what was finished is kept then, and
    the same call goes on from there.
    """
    # What is wrong with the course concerns everybody: said once, before anybody is set aside for it.
    for assignment in assignments:
        course.require_release(assignment)
    read_secret(course.secret)
    check_course(course, assignments)
    due_dates(course)
    course = with_consent(course)
    with open_gradebook(course):
        pass
    with only_writer(course, "grade"):
        return _grade(course, assignments, students, force, progress)


def _grade(
    course: Course, assignments: Sequence[str], students: Sequence[str] | None, force: bool, progress: bool
) -> Summary:
    from tqdm import tqdm

    todo = [
        (assignment, student)
        for assignment in assignments
        for student in submitted_students(course, assignment)
        if students is None or student in students
    ]
    summary = Summary()
    versions = {
        name: notebooks.assignment_version(notebooks.read(course.notebook("source", name))) for name in assignments
    }
    for assignment, student in tqdm(todo, desc="grading", unit="submission", disable=not progress):
        record = look_up(course, assignment, student)
        if record is not None and not force and _is_done(course, record, versions[assignment]):
            summary.already += 1
        elif record is None or record.version:  # without a version: damaged, and not ours to overwrite
            record = _grade_one(course, assignment, student, versions[assignment])
            write_record(course, record)
            summary.states[record.state] += 1
        if record.state in SET_ASIDE:
            summary.set_aside.append(record)
        elif record.state in INCIDENTS:
            summary.incidents.append(record)
    return summary


def _is_done(course: Course, record: Record, version: str) -> bool:
    """Whether a submission needs no grading: its record is of this file, and the graded notebook is in its place."""
    place = record.assignment, record.student
    if not record.is_of(submission_digest(course, *place), version):
        return False
    return not record.questions or course.notebook("autograded", *place).is_file()


def _grade_one(course: Course, assignment: str, student: str, version: str) -> Record:
    record = Record(student, assignment, submission_digest(course, assignment, student), version, GRADED)
    started = time.monotonic()
    try:
        repaired = stage(course, assignment, student)
        autograde(course, assignment, student)
    except Unreadable as error:
        record.state, record.reason = UNREADABLE, str(error)
        return record
    except Exception as error:
        # One submission must not stop the class, whatever is wrong with it; a person looks at it.
        reason = str(error) if isinstance(error, ConversionError) else f"{type(error).__name__}: {error}"
        if any(sign in reason for sign in _DISK):
            raise CourseError(
                f"cannot write while grading {student}, {assignment} ({reason[:200]}). Make room, then run the same "
                "command again: what was finished is kept, and it goes on from there."
            ) from None
        record.state, record.reason = FAILED, reason[:500]
        return record
    record.seconds = round(time.monotonic() - started, 2)
    stamp = notebooks.read(course.notebook("autograded", assignment, student)).metadata[STAMP]
    record.questions = dict(stamp["verdicts"])
    record.observations = dict(stamp["observations"])
    record.inputs, record.pool = dict(stamp["inputs"]), stamp["pool"]
    record.answers, record.cell_seconds = dict(stamp["answers"]), dict(stamp["cell_seconds"])
    record.notes = [*repaired, *stamp.get("notes", [])]
    record.submitted_version, record.submitted_release = stamp.get("submitted_version"), stamp.get("submitted_release")
    record.state, record.reason = state_of(record.questions, stamp.get("incidents", ()))
    if submission_digest(course, assignment, student) != record.digest:
        record.state, record.reason = FAILED, "another file was handed in while this one was graded: grade again"
    return record
