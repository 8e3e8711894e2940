"""The commands about a class: `autograde confirm`, `regrade`, `report` and `explain`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..course import Course, CourseError
from ..plain_text import plain

Add = Callable[..., argparse.ArgumentParser]
Choose = Callable[[argparse.Namespace], tuple[Course, list[str]]]
OK, FAILED, SET_ASIDE = 0, 1, 3


def add_class_commands(add: Add, choose: Choose) -> None:
    """Add the commands to a parser; `choose` gives the course and the assignments that the options name."""
    command = add(
        "confirm",
        lambda options: _confirm(options, choose),
        "List files under one id from different hands, which wait for a person; with --student and --file, settle one.",
    )
    command.add_argument("--student", metavar="ID", help="whose files to settle")
    command.add_argument(
        "--file", type=int, metavar="N", help="the number of the file that counts, as listed; for one assignment"
    )

    command = add(
        "regrade",
        lambda options: _regrade(options, choose),
        "Judge stored observations again after a judge changed, without running code. Shows what would change; "
        "writes nothing without --write. Scores and comments that a person gave stay.",
    )
    command.add_argument("--question", action="append", metavar="ID", help="only this question (repeatable)")
    command.add_argument("--student", action="append", metavar="ID", help="only this student (repeatable)")
    command.add_argument("--write", action="store_true", help="enter the changes into gradebook, journal and notebooks")

    command = add(
        "report",
        lambda options: _report(options, choose),
        "Write one HTML page about the class: misconceptions, scores, slow cells, incidents. Nobody is named.",
    )
    command.add_argument("--names", action="store_true", help="name students in the lists (default: nobody is named)")
    command.add_argument("--to", type=Path, metavar="FILE", help="where to (default: report.html in the course)")

    text = "Explain one student's points for a question: hidden inputs, expected and observed values. For you alone."
    command = add("explain", lambda options: _explain(options, choose), text)
    command.add_argument("student", metavar="STUDENT", help="the student's id")
    command.add_argument("question", metavar="QUESTION", help="the question's id, such as 03a-clip")


def _explain(options: argparse.Namespace, choose: Choose) -> int:
    # Each function imports what it needs: `autograde --help` must not wait for PyTorch or nbgrader.
    from ..results.explanation import explain_points

    course, assignments = choose(options)
    print(plain(explain_points(course, assignments, options.student, options.question), lines=True))
    return OK


def _confirm(options: argparse.Namespace, choose: Choose) -> int:
    from ..intake.confirm import confirm, waiting
    from ..intake.notes import held_path

    course, assignments = choose(options)
    entries = waiting(course, assignments)
    if options.student is not None and options.file is not None:
        own = [entry.assignment for entry in entries if entry.student == options.student]
        if len(own) != 1:
            # The same number is another file in each assignment.
            remedy = f"({', '.join(own)}): add --assignment NAME" if own else "(`autograde confirm` lists what does)"
            raise CourseError(f"{len(own)} submissions of {options.student} wait for a person {remedy}.")
        result = confirm(course, own[0], options.student, options.file)
        print(plain(f"{options.student}, {own[0]}: {result}; `autograde grade` grades it"))
        return OK
    for entry in entries:
        print(plain(f"{entry.student}, {entry.assignment}: {entry.note.why_held}"))
        if entry.note.is_damaged:
            continue
        if course.notebook("submitted", entry.assignment, entry.student).is_file():
            file, origin = entry.note.file or "put there by hand", entry.note.origin or "unknown"
            print(plain(f"  0: {file} ({origin}), counts until now"))
        else:
            print("  0: none of these")
        for number, notebook in enumerate(entry.note.held, 1):
            path = held_path(course, entry.assignment, entry.student, notebook)
            print(plain(f"  {number}: {notebook.file} ({notebook.origin}), {notebook.time or 'no time'}: {path}"))
    advice = "settle each with `autograde confirm --assignment NAME --student ID --file N`"
    print(f"{len(entries)} to confirm: {advice if entries else 'nothing waits'}")
    return SET_ASIDE if entries else OK


def _regrade(options: argparse.Namespace, choose: Choose) -> int:
    from ..grading.regrade import manual_scores, regrade, table

    course, assignments = choose(options)
    changes = regrade(course, assignments, options.question, options.student, write=options.write)
    if changes:
        print(table(changes, manual_scores(course, changes)))
    with_other_points = sum(change.after not in (None, change.before) for change in changes)
    to_run = sum(change.after is None for change in changes)
    advice = "written; `autograde feedback` renews the pages" if options.write else "nothing written: add --write"
    advice = advice if changes else "nothing to write"
    print(f"{len(changes)} verdicts differ, {with_other_points} of them in points ({advice})")
    if to_run:
        print(f"{to_run} cannot be judged again without running the code: see why")
    return SET_ASIDE if to_run else OK


def _report(options: argparse.Namespace, choose: Choose) -> int:
    from ..results.report_page import write_report

    course, assignments = choose(options)
    path = write_report(course, assignments, names=options.names, to=options.to)
    print(f"{path}: {'with names, for you alone' if options.names else 'without names'}")
    return OK
