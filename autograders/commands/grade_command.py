"""The commands `autograde grade` and `try`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..course import Course, CourseError
from ..plain_text import plain

if TYPE_CHECKING:
    from ..grading.pending import Summary

Add = Callable[..., argparse.ArgumentParser]
Choose = Callable[[argparse.Namespace], tuple[Course, list[str]]]
OK, SET_ASIDE, INCIDENTS = 0, 3, 4


def add_grade_command(add: Add, choose: Choose) -> None:
    """Add the command to a parser; `choose` gives the course and the assignments that the options name."""
    command = add(
        "grade",
        lambda options: _grade(options, choose),
        "Grade what is new; set aside what cannot be graded, with its reason.",
    )
    command.add_argument("--student", action="append", metavar="ID", help="only this student (repeatable)")
    command.add_argument("--force", action="store_true", help="grade again what is already done")
    text = "print nothing but errors and the submissions that a person has to look at"
    command.add_argument("--quiet", action="store_true", help=text)
    command.add_argument(
        "--without-sandbox", action="store_true", help="acknowledge: where bubblewrap does not work, limits alone hold"
    )
    text = (
        "processes that grade at the same time (default: one for each core that this process may use; with "
        "--scheduler: submissions that the cluster holds at a time, two for each of its workers)"
    )
    command.add_argument("--workers", type=at_least_one, metavar="N", help=text)
    text = "let a running Dask cluster grade: the address of its scheduler, such as tcp://host:8786"
    command.add_argument("--scheduler", metavar="ADDRESS", help=text)

    text = "Grade one file by itself, without a class, and print the whole verdict. Nothing is kept."
    command = add("try", _try, text, course=False)
    command.add_argument("file", type=Path, metavar="FILE", help="a notebook, or a file made by `lecture submit`")
    command.add_argument("--question", action="append", metavar="ID", help="print only this question (repeatable)")
    command.add_argument(
        "--without-sandbox", action="store_true", help="acknowledge: where bubblewrap does not work, limits alone hold"
    )


def at_least_one(text: str) -> int:
    """The number of an option. Raises ArgumentTypeError below one."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least one is needed")
    return count


def _try(options: argparse.Namespace) -> int:
    from ..grading.states import INCIDENTS as INCIDENT_STATES
    from ..grading.states import SET_ASIDE as SET_ASIDE_STATES
    from ..results.trial import try_file, verdict_lines

    records = try_file(options.file, without_sandbox=options.without_sandbox)
    there = [name for record in records for name in record.questions]
    if unknown := sorted(set(options.question or ()) - set(there)):
        raise CourseError(f"{options.file} has no question {unknown[0]}; it has {', '.join(there)}.")
    for record in records:
        print(plain("\n".join(verdict_lines(record, options.question)), lines=True))
    if any(record.state in SET_ASIDE_STATES for record in records):
        return SET_ASIDE
    return INCIDENTS if any(record.state in INCIDENT_STATES for record in records) else OK


def _grade(options: argparse.Namespace, choose: Choose) -> int:
    from ..grading.pending import changed_due_dates, check_call, find_pending
    from ..writer import only_writer

    course, assignments = choose(options)
    check_call(course, assignments, options.student)
    summary, todo = find_pending(course, assignments, options.student, force=options.force)
    if todo or changed_due_dates(course, assignments):
        summary = _grade_all(options, course, assignments)
    else:
        with only_writer(course, "grade"):
            pass  # refused while somebody else writes, who may change what was found
    for line in summary.reasons() if options.quiet else [str(summary)]:
        print(line)
    if summary.set_aside:
        return SET_ASIDE
    return INCIDENTS if summary.incidents else OK


def _grade_all(options: argparse.Namespace, course: Course, assignments: list[str]) -> Summary:
    """Grade with the processes or the cluster that the options name. Loads PyTorch, which `grade` needs from here."""
    from ..grading.grade import grade
    from ..grading.runner import usable_cores

    course = replace(course, without_sandbox=course.without_sandbox or options.without_sandbox)

    def run(workers: int, executor: Executor | None = None) -> Summary:
        return grade(
            course,
            assignments,
            options.student,
            force=options.force,
            progress=not options.quiet,
            workers=workers,
            executor=executor,
        )

    if options.scheduler is None:
        return run(options.workers or usable_cores())
    from ..grading.cluster import cluster

    with cluster(options.scheduler) as (executor, count):
        # Two for each worker: while it grades one, the next is already with it.
        return run(options.workers or 2 * count, executor)
