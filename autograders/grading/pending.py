"""What a grading run has to do, found without loading what grades: records and digests alone, one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .. import notebooks
from ..course import Course, CourseError, released
from ..intake.intake import submission_digest, submitted_students
from ..intake.roster import Roster
from ..intake.times import due_dates
from ..nbgrader.database import open_gradebook
from ..plain_text import plain
from ..questions.seeds import CourseSets
from .journal import Record, look_up
from .states import INCIDENTS, SET_ASIDE

Job = tuple[str, str]
"""An assignment and a student."""


@dataclass
class Summary:
    """What a grading run did: submissions by state, those already done, and the reasons of those with an incident."""

    states: Counter[str] = field(default_factory=Counter)
    already: int = 0
    set_aside: list[Record] = field(default_factory=list)
    incidents: list[Record] = field(default_factory=list)

    def note(self, record: Record) -> None:
        """Remember a record if a person has to look at it; the others of a large class do not fit into memory."""
        if record.state in SET_ASIDE:
            self.set_aside.append(replace(record, observations={}))
        elif record.state in INCIDENTS:
            self.incidents.append(replace(record, observations={}))

    def sort(self, assignments: Sequence[str]) -> None:
        """Put what a person has to look at in the order of the assignments and students."""
        for records in (self.set_aside, self.incidents):
            records.sort(key=lambda record: (assignments.index(record.assignment), record.student))

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "nothing to do"
        return "\n".join([f"{counts}; {self.already} were already done", *self.reasons()])

    def reasons(self) -> list[str]:
        """A line for each submission that a person has to look at."""
        labelled = [("set aside", record) for record in self.set_aside]
        labelled += [(str(record.state), record) for record in self.incidents]
        return [
            f"  {label}: {plain(record.student)}, {record.assignment}: {plain(record.reason)}"
            for label, record in labelled
        ]


def check_call(course: Course, assignments: Sequence[str], students: Sequence[str] | None) -> None:
    """Refuse what concerns everybody: said once, before anybody is set aside for it.

    Raises CourseError when an assignment was not released, the secret, the replaced sets, the due dates or the
    gradebook cannot be read, or a student is unknown.
    """
    for assignment in assignments:
        course.require_release(assignment)
    CourseSets(course.root)
    due_dates(course, {*notebooks.assignments(), *released(course)})
    # A damaged or locked gradebook stops the run, not each submission.
    with open_gradebook(course):
        pass
    if students:
        submitted = {student for name in assignments for student in submitted_students(course, name)}
        if strangers := sorted(set(students) - submitted - set(Roster(course).names)):
            raise CourseError(f"nobody is called {', '.join(strangers)}: `autograde gradebook` lists the class.")


def find_pending(
    course: Course, assignments: Sequence[str], students: Sequence[str] | None, *, force: bool = False
) -> tuple[Summary, list[Job]]:
    """What is done already, with what of it a person has to look at, and the submissions to grade, in order."""
    summary, todo = Summary(), list[Job]()
    for assignment in assignments:
        version = notebooks.read_version(course.notebook("source", assignment))
        for student in submitted_students(course, assignment):
            if students is not None and student not in students:
                continue
            record = look_up(course, assignment, student)
            if record is not None and not force and _is_done(course, record, version):
                summary.already += 1
                summary.note(record)
            elif record is None or record.version:
                todo.append((assignment, student))
            else:  # without a version: damaged, and not ours to overwrite
                summary.note(record)
    summary.sort(assignments)
    return summary, todo


def changed_due_dates(course: Course, assignments: Sequence[str]) -> list[str]:
    """The assignments whose penalties in the gradebook are of another due date than that of assignments.csv."""
    due = due_dates(course)
    with open_gradebook(course) as gradebook:
        entered = {entry.name: entry.duedate for entry in gradebook.assignments}
    return [name for name in assignments if name in due and name in entered and due[name].date != entered[name]]


def _is_done(course: Course, record: Record, version: str) -> bool:
    """Whether a submission needs no grading: its record is of this file, and the graded notebook is in its place."""
    place = record.assignment, record.student
    if not record.is_of(submission_digest(course, *place), version):
        return False
    return not record.questions or course.notebook("autograded", *place).is_file()
