"""The instructor's command line: `autograde`, also `python -m autograders`."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from lecture_lib._common.course_setting import CourseSettingError
from lecture_lib._common.system import print_any_letter

try:  # the setting is read once, while modules are imported
    from .commands.class_commands import add_class_commands
    from .commands.grade_command import add_grade_command, at_least_one
    from .commands.lms_commands import add_lms_commands
    from .commands.notebook_commands import add_notebook_commands
    from .commands.question_commands import add_question_commands
    from .commands.release_commands import add_release_commands
    from .commands.term_commands import add_term_commands
    from .course import Course, default_assignments, released
    from .plain_text import plain
    from .setting import SETTING
except CourseSettingError as error:
    sys.exit(f"autograde: {error}")

OK, FAILED, SET_ASIDE = 0, 1, 3

_DESCRIPTION = f"""\
Release, collect, grade and report on the course "{SETTING.title}".

A first course, from the checkout:
  autograde release                 build what students get, in grading/bundle
  autograde collect FOLDER          take the files that students made with `lecture submit`
  autograde grade                   grade what is new
  autograde feedback                a page for every student
  autograde gradebook               the table, and grades.csv for the registrar

Exit codes: 0 all is well, 1 the command failed, 2 wrong usage, 3 some submissions were set aside without a score,
4 all have a score, but some question met an incident (partial, crashed, out of time, tampered), 130 interrupted.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    print_any_letter()  # of a student's file
    options = _parser().parse_args(arguments)
    from .course import CourseError, ReleaseError
    from .nbgrader.nbgrader_api import ConversionError
    from .notebooks import NotebookError
    from .questions.bank import BankError
    from .questions.seeds import SecretError
    from .release.checkout import CheckoutError
    from .release.repository import RepositoryError

    of_the_course = (BankError, CourseError, CourseSettingError, ConversionError, NotebookError, SecretError)
    try:
        code: int = options.run(options)
        sys.stdout.flush()  # here, where an error is met, and not when the process ends
        return code
    except (*of_the_course, CheckoutError, ReleaseError, RepositoryError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return FAILED
        print(f"autograde {options.command}: {plain(error, lines=True)}", file=sys.stderr)
        return FAILED
    except Exception as error:
        from .questions.authors_error import authors_line

        line = authors_line(error)
        if line is None:
            raise
        print(f"autograde {options.command}: {plain(line)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept, and the same command goes on from there", file=sys.stderr)
        return 130


def _nobody_reads() -> bool:
    """Whether what reads our output has ended, as `| head` does when it has enough. Then nothing more is written."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    ended = any(event & select.POLLERR for _, event in poll.poll(0))
    if ended:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ended


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograde", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str, course: bool = True
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        if course:
            command.add_argument(
                "--course",
                type=Path,
                metavar="DIR",
                help="the course's working folder (default: $LECTURE_COURSE, else grading/ in the checkout)",
            )
            command.add_argument(
                "--assignment",
                action="append",
                metavar="NAME",
                help="only this assignment (default: all; repeatable)",
            )
        return command

    add_release_commands(add, _course_to_release)

    command = add("collect", _collect, "Take what was handed in: packed files, nbgrader's folders, exports of an LMS.")
    command.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a packed file, a notebook, a zip, a folder"
    )
    text = (
        "whose a file is: a CSV with the columns file or name (a pattern), id, and optionally submitted and late; or "
        "Moodle's grading worksheet"
    )
    command.add_argument("--mapping", type=Path, metavar="FILE", help=text)
    text = (
        "take the times of the files in an LMS's zip as times of handing in; some LMSs write the time of the download "
        "there instead, so compare two of them with the LMS first"
    )
    command.add_argument("--archive-times", action="store_true", help=text)

    command = add("simulate", _simulate, "Make a class whose true scores are known, from the bank of answers.")
    command.add_argument("--students", type=int, default=12, metavar="N", help="size of the class (default: 12)")

    add_grade_command(add, _course)

    text = "Write a page for every student whose submission was graded or set aside; only what has changed since."
    command = add("feedback", _feedback, text)
    command.add_argument("--student", action="append", metavar="ID", help="only this student (repeatable)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    text = "pages that are made at the same time (default: one for each core that this process may use)"
    command.add_argument("--workers", type=at_least_one, metavar="N", help=text)

    add_class_commands(add, _course)

    add_lms_commands(add, _course)
    add_term_commands(add, _course)

    command = add("gradebook", _gradebook, "Print the gradebook, write grades.csv and questions.csv.")
    text = "also write grades-wide.csv: one row a student, with name, address and ids from the roster"
    command.add_argument("--wide", action="store_true", help=text)

    add(
        "doctor",
        _doctor,
        "Try what this machine can hold students' code to; remedies for what is missing.",
        course=False,
    )

    add_question_commands(add)
    add_notebook_commands(add)
    return parser


def _course_to_release(options: argparse.Namespace) -> tuple[Course, list[str]]:
    """The course's folder and the assignments that go into it: those named, or all that are built."""
    from .notebooks import master_path

    for name in options.assignment or ():
        master_path(name)
    course = Course(options.course.resolve()) if options.course else Course.default()
    # Somebody who names an assignment twice wants it once.
    options.assignment = list(dict.fromkeys(options.assignment or ()))
    return course, options.assignment or default_assignments()


def _course(options: argparse.Namespace) -> tuple[Course, list[str]]:
    """The course's folder and the assignments that the command is about: those named, or all that were released."""
    course, assignments = _course_to_release(options)
    return course, options.assignment or released(course) or assignments


def _collect(options: argparse.Namespace) -> int:
    from .intake.collect import collect

    course, assignments = _course(options)
    collected = collect(
        course, options.paths, assignments, mapping=options.mapping, archive_times=options.archive_times
    )
    for item in collected:
        summary = f"{item.student}: {', '.join(item.notebooks) or 'beside the notebook'}"
        print(plain(f"{item.label}: {item.problem or summary}"))
        for note in item.notes:
            print(f"    {plain(note)}")
    bad = sum(item.problem is not None for item in collected)
    print(f"{len(collected) - bad} taken, {bad} set aside")
    return SET_ASIDE if bad else OK


def _simulate(options: argparse.Namespace) -> int:
    from .questions.simulate import simulate

    course, assignments = _course(options)
    path = simulate(course, assignments, options.students)
    print(f"{options.students} students handed in {', '.join(assignments)}; what each must get is in {path}")
    return OK


def _doctor(_: argparse.Namespace) -> int:
    from .sandbox.doctor import examine, report

    findings = examine()
    print(report(findings))
    return FAILED if any(finding.essential and not finding.holds for finding in findings) else OK


def _feedback(options: argparse.Namespace) -> int:
    from .grading.runner import usable_cores
    from .results.feedback import write_feedback

    course, assignments = _course(options)
    workers = options.workers or usable_cores()
    pages = write_feedback(course, assignments, options.student, progress=not options.quiet, workers=workers)
    folder = course.step("feedback", "")
    print(f"{len(pages.paths)} pages in {folder}; {pages.written} written, the others had not changed")
    return OK


def _gradebook(options: argparse.Namespace) -> int:
    from .grading.states import State
    from .release.history import read_history
    from .results.class_tables import releases_in_use, table, write_csv, write_wide
    from .results.known_scores import compare_known

    course, assignments = _course(options)
    rows = write_csv(course, assignments)
    print(table(rows))
    for line in releases_in_use(rows, read_history(course)):
        print(plain(line))
    print(f"\nfor the registrar: {course.grades}; by question: {course.root / 'questions.csv'}")
    if options.wide:
        print(f"one row a student: {write_wide(course, rows)}")
    if not course.known.exists():
        open_states = (State.FAILED, State.TO_CONFIRM, State.NOT_PLACED)
        return SET_ASIDE if any(row.state in open_states for row in rows) else OK
    count, differences = compare_known(course)
    if differences:
        print(f"{len(differences)} of {count} scores differ from the known ones:")
        print("\n".join(f"  {plain(difference)}" for difference in differences))
        return FAILED
    print(f"simulated class: all {count} scores and misconceptions equal the known ones")
    return OK


if __name__ == "__main__":
    sys.exit(main())
