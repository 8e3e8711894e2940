"""The commands `autograde regrade` and `autograde report`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .course import Course

Add = Callable[..., argparse.ArgumentParser]
Choose = Callable[[argparse.Namespace], tuple[Course, list[str]]]
OK, SET_ASIDE = 0, 3


def add_class_commands(add: Add, choose: Choose) -> None:
    """Add the commands to a parser; `choose` gives the course and the assignments that the options name."""
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
        "Write one HTML page about the class: scores, misconceptions, slow cells, incidents. Nobody is named.",
    )
    command.add_argument("--names", action="store_true", help="name students in the lists (default: nobody is named)")
    command.add_argument("--to", type=Path, metavar="FILE", help="where to (default: report.html in the course)")


def _regrade(options: argparse.Namespace, choose: Choose) -> int:
    from .regrade import manual_scores, regrade, table

    course, assignments = choose(options)
    changes = regrade(course, assignments, options.question, options.student, write=options.write)
    if changes:
        print(table(changes, manual_scores(course, changes)))
    moved = sum(change.after not in (None, change.before) for change in changes)
    to_run = sum(change.after is None for change in changes)
    done = "written; `autograde feedback` renews the pages" if options.write else "nothing written: add --write"
    print(f"{len(changes)} verdicts differ, {moved} of them in points ({done if changes else 'nothing to write'})")
    if to_run:
        print(f"{to_run} cannot be judged again without running the code: see why")
    return SET_ASIDE if to_run else OK


def _report(options: argparse.Namespace, choose: Choose) -> int:
    from .report import write_report

    course, assignments = choose(options)
    path = write_report(course, assignments, names=options.names, to=options.to)
    print(f"{path}: {'with names, for you alone' if options.names else 'without names'}")
    return OK
