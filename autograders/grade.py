"""Grades what was submitted: nbgrader's converter and gradebook, our kernel, judge and journal around it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import notebooks
from .course import Course
from .course_check import check_course
from .gradebook import open_gradebook
from .intake import Unreadable, stage, submission_digest, submitted_students
from .journal import (
    CRASHED,
    FAILED,
    GRADED,
    LATE,
    OUT_OF_TIME,
    SET_ASIDE,
    TAMPERED,
    UNREADABLE,
    Record,
    read_record,
    write_record,
)
from .late import lateness
from .nbgrader_api import ConversionError, autograde
from .notebooks import STAMP
from .seeds import read_secret
from .times import due_dates


@dataclass
class Summary:
    """What a grading run did: submissions by state, those already done, and the reasons of those set aside."""

    states: Counter[str] = field(default_factory=Counter)
    already: int = 0
    set_aside: list[Record] = field(default_factory=list)

    def __str__(self) -> str:
        done = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "nothing to do"
        rows = [f"{done}; {self.already} were already done"]
        rows += [f"  set aside: {r.student}, {r.assignment}: {r.reason}" for r in self.set_aside]
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
    again what is done. Raises CourseError when an assignment was not released.
    """
    from tqdm import tqdm

    # What is wrong with the course concerns everybody: said once, before anybody is set aside for it.
    for assignment in assignments:
        course.require_release(assignment)
    read_secret(course.secret)
    check_course(course, assignments)
    due_dates(course)
    with open_gradebook(course):
        pass
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
        digest = submission_digest(course, assignment, student)
        record = read_record(course, assignment, student)
        if record is not None and record.is_of(digest, versions[assignment]) and not force:
            summary.already += 1
        else:
            record = _grade_one(course, assignment, student, versions[assignment], digest)
            write_record(course, record)
            summary.states[record.state] += 1
        if record.state in SET_ASIDE:
            summary.set_aside.append(record)
    return summary


def _grade_one(course: Course, assignment: str, student: str, version: str, digest: str | None) -> Record:
    record = Record(student, assignment, digest, version, GRADED)
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
        record.state, record.reason = FAILED, reason[:500]
        return record
    record.seconds = round(time.monotonic() - started, 2)
    stamp = notebooks.read(course.notebook("autograded", assignment, student)).metadata[STAMP]
    record.questions = dict(stamp["verdicts"])
    record.observations = dict(stamp["observations"])
    record.notes = [*repaired, *stamp.get("notes", [])]
    record.submitted_version = stamp.get("submitted_version")
    record.state, record.reason = _state(record, stamp.get("incident"))
    if late := lateness(stamp.get("late", {})):
        record.state = LATE if record.state == GRADED else record.state
        record.reason = "; ".join(filter(None, [late, record.reason]))
    return record


def _state(record: Record, incident: str | None) -> tuple[str, str]:
    """The state of a submission that ran, from what its questions met."""
    if incident:
        return CRASHED, incident
    incidents = {question: verdict["incident"] for question, verdict in record.questions.items() if verdict["incident"]}
    for question, what in incidents.items():
        if record.questions[question]["misconception"] == "forged":
            return TAMPERED, f"{question}: {what}"
    for question, what in incidents.items():
        if what.startswith("out of time"):
            return OUT_OF_TIME, f"{question}: {what}"
    return GRADED, "; ".join(f"{question}: {what}" for question, what in incidents.items())
