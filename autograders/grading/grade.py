"""Grades what was submitted: nbgrader's converter and gradebook, our kernel, judge and journal around it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from concurrent.futures import Executor

from .. import notebooks
from ..course import Course
from ..intake.intake import submission_digest
from ..nbgrader.nbgrader_api import penalise_again
from ..release.course_check import check_course
from ..sandbox.consent import with_consent
from ..writer import only_writer
from .attempt import enter, grade_here, record_of
from .job import GradingTask, Packer
from .journal import Record, write_record
from .pending import Job, Summary, changed_due_dates, check_call, find_pending
from .runner import ExecutorCrew, Processes, outcomes


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
    """Grade every submission that the journal does not have yet, and enter due dates that have changed.

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
    check_call(course, assignments, students)
    check_course(course, assignments)
    course = with_consent(course)
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

    for name in changed_due_dates(course, assignments):
        penalise_again(course, name)
    versions = {name: notebooks.read_version(course.notebook("source", name)) for name in assignments}
    summary, todo = find_pending(course, assignments, students, force=force)
    graded = _graded(course, todo, versions, workers, executor)
    bar = tqdm(total=len(todo), desc="grading", unit="submission", disable=not progress)
    with bar, contextlib.closing(graded):
        for record in graded:
            write_record(course, record)
            summary.note(record)
            summary.states[record.state] += 1
            bar.update()
    summary.sort(assignments)
    return summary


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

    def pack(job: Job) -> GradingTask | None:
        # Before the files are read: one that is replaced meanwhile then differs, and is graded again.
        digests[job] = submission_digest(course, *job)
        return packer.pack(*job)

    with Processes(min(workers, len(todo))) if executor is None else ExecutorCrew(executor, workers) as crew:
        for job, outcome in outcomes(crew, todo, pack):
            final = grade_here(course, *job) if outcome is None else enter(course, *job, outcome)
            yield record_of(course, *job, digests.pop(job), versions[job[0]], final)
