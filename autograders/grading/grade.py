"""Grades what was submitted: nbgrader's converter and gradebook, our kernel, judge and journal around it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from .. import notebooks
from ..course import Course, CourseError, released
from ..intake.intake import submission_digest, submitted_students
from ..intake.roster import Roster
from ..intake.times import due_dates
from ..nbgrader.database import open_gradebook
from ..plain_text import plain
from ..questions.seeds import read_secret
from ..release.course_check import check_course
from ..sandbox.consent import with_consent
from ..writer import only_writer
from .attempt import enter, grade_here, record_of
from .job import Packer, Parcel
from .journal import Record, look_up, write_record
from .runner import ExecutorCrew, Job, Processes, outcomes
from .states import INCIDENTS, SET_ASIDE


@dataclass
class Summary:
    """What a grading run did: submissions by state, those already done, and the reasons of those with an incident."""

    states: Counter[str] = field(default_factory=Counter)
    already: int = 0
    set_aside: list[Record] = field(default_factory=list)
    incidents: list[Record] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "nothing to do"
        rows = [f"{counts}; {self.already} were already done"]
        labelled = [("set aside", record) for record in self.set_aside]
        labelled += [(str(record.state), record) for record in self.incidents]
        rows += [
            f"  {label}: {plain(record.student)}, {record.assignment}: {plain(record.reason)}"
            for label, record in labelled
        ]
        return "\n".join(rows)


def grade(
    course: Course,
    assignments: Sequence[str],
    students: Sequence[str] | None = None,
    *,
    force: bool = False,
    progress: bool = True,
    workers: int = 1,
    executor: Executor | None = None,
) -> Summary:
    """Grade every submission that the journal does not have yet.

    A submission that cannot be read or graded is set aside with its reason; the others are graded. `force` grades
    again what is done. Notebooks run one after the other in this process, or in `workers` processes of this machine;
    or wherever `executor` runs them, which then holds `workers` submissions at a time and whose own workers must be
    processes with the same packages. Whatever runs them, this process alone writes gradebook and journal.

    Raises ValueError for fewer than one worker; CourseError when an assignment was not released, when another command
    is writing, when there is no sandbox and nobody has acknowledged that, when the workers cannot grade this course,
    or when the disk is full; what was finished is kept then, and the same call goes on from there.
    """
    if workers < 1:
        raise ValueError(f"{workers} workers: at least one is needed")
    # What is wrong with the course concerns everybody: said once, before anybody is set aside for it.
    for assignment in assignments:
        course.require_release(assignment)
    read_secret(course.secret)
    check_course(course, assignments)
    due_dates(course, {*notebooks.assignments(), *released(course)})
    if students:
        submitted = {student for name in assignments for student in submitted_students(course, name)}
        if strangers := sorted(set(students) - submitted - set(Roster(course).names)):
            raise CourseError(f"nobody is called {', '.join(strangers)}: `autograde gradebook` lists the class.")
    course = with_consent(course)
    # Opened once before anything runs: a damaged or locked gradebook stops the run, not each submission.
    with open_gradebook(course):
        pass
    with only_writer(course, "grade"):
        return _grade(course, assignments, students, force, progress, workers, executor)


def _grade(
    course: Course,
    assignments: Sequence[str],
    students: Sequence[str] | None,
    force: bool,
    progress: bool,
    workers: int,
    executor: Executor | None,
) -> Summary:
    from tqdm import tqdm

    versions = {name: notebooks.read_version(course.notebook("source", name)) for name in assignments}
    summary, records, todo = Summary(), dict[Job, Record](), list[Job]()
    for job in _jobs(course, assignments, students):
        record = look_up(course, *job)
        if record is not None:
            records[job] = record
        if record is not None and not force and _is_done(course, record, versions[job[0]]):
            summary.already += 1
        elif record is None or record.version:  # without a version: damaged, and not ours to overwrite
            todo.append(job)
    graded = _graded(course, todo, versions, workers, executor)
    bar = tqdm(total=len(todo), desc="grading", unit="submission", disable=not progress)
    with bar, contextlib.closing(graded):
        for record in graded:
            write_record(course, record)
            records[record.assignment, record.student] = record
            summary.states[record.state] += 1
            bar.update()
    for job in sorted(records, key=lambda job: (assignments.index(job[0]), job[1])):
        if records[job].state in SET_ASIDE:
            summary.set_aside.append(records[job])
        elif records[job].state in INCIDENTS:
            summary.incidents.append(records[job])
    return summary


def _jobs(course: Course, assignments: Sequence[str], students: Sequence[str] | None) -> list[Job]:
    return [
        (assignment, student)
        for assignment in assignments
        for student in submitted_students(course, assignment)
        if students is None or student in students
    ]


def _graded(
    course: Course, todo: Sequence[Job], versions: dict[str, str], workers: int, executor: Executor | None
) -> Generator[Record, None, None]:
    """The records of the submissions as they are done; their scores are in the gradebook by then."""
    if executor is None and (workers == 1 or not todo):
        for job in todo:
            digest = submission_digest(course, *job)
            yield record_of(course, *job, digest, versions[job[0]], grade_here(course, *job))
        return
    packer, digests = Packer(course), dict[Job, str | None]()

    def pack(job: Job) -> Parcel | None:
        # Before the files are read: one that is replaced meanwhile then differs, and is graded again.
        digests[job] = submission_digest(course, *job)
        return packer.pack(*job)

    with Processes(min(workers, len(todo))) if executor is None else ExecutorCrew(executor, workers) as crew:
        for job, outcome in outcomes(crew, todo, pack):
            final = grade_here(course, *job) if outcome is None else enter(course, *job, outcome)
            yield record_of(course, *job, digests[job], versions[job[0]], final)


def _is_done(course: Course, record: Record, version: str) -> bool:
    """Whether a submission needs no grading: its record is of this file, and the graded notebook is in its place."""
    place = record.assignment, record.student
    if not record.is_of(submission_digest(course, *place), version):
        return False
    return not record.questions or course.notebook("autograded", *place).is_file()
