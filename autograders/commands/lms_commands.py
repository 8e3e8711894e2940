"""The commands that exchange files with Canvas and Moodle: `autograde roster` and `export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..course import Course, CourseError
from ..plain_text import plain

Add = Callable[..., argparse.ArgumentParser]
Choose = Callable[[argparse.Namespace], tuple[Course, list[str]]]
OK = 0


def add_lms_commands(add: Add, choose: Choose) -> None:
    """Add the commands to a parser; `choose` gives the course and the assignments that the options name."""
    command = add(
        "roster",
        lambda options: _roster(options, choose),
        "Take the class from an export of Canvas or Moodle into roster.csv; show which columns are used.",
    )
    command.add_argument(
        "file", type=Path, metavar="FILE", help="Canvas's gradebook export, or a Moodle export, as CSV"
    )
    text = (
        "which column holds a role (id, name, email or lms_id) where that is not recognised, such as "
        "--column id='ID-Nummer' --column name='Vorname+Nachname' (repeatable)"
    )
    command.add_argument("--column", action="append", type=_pair, default=[], metavar="ROLE=COLUMN", help=text)
    command.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")

    command = add(
        "export",
        lambda options: _export(options, choose),
        "Write scores and feedback for Canvas or Moodle: their own file with what changed, and an archive of pages.",
    )
    lms = command.add_mutually_exclusive_group(required=True)
    lms.add_argument("--canvas", type=Path, metavar="EXPORT", help="the CSV that Canvas's gradebook exports")
    text = "an assignment's grading worksheet from Moodle; name the assignment with --assignment"
    lms.add_argument("--moodle", type=Path, metavar="WORKSHEET", help=text)
    text = "Canvas: the column of an assignment where that is not clear, such as 03a-training-recipe='Recipe (123)'"
    command.add_argument("--column", action="append", type=_pair, default=[], metavar="NAME=COLUMN", help=text)
    command.add_argument(
        "--to", type=Path, metavar="DIR", help="the folder to write to (default: export in the course)"
    )
    command.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")


def _pair(text: str) -> tuple[str, str]:
    name, sign, column = text.partition("=")
    if not (name and sign and column):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN")
    return name, column


def _roster(options: argparse.Namespace, choose: Choose) -> int:
    from ..intake.lms_tables import read_class_list, write_roster

    course, _ = choose(options)
    people = read_class_list(options.file, dict(options.column))
    change = write_roster(course, people, dry_run=options.dry_run)
    print(
        plain(
            f"an export of {people.lms}: {', '.join(f'{role} from {name!r}' for role, name in people.columns.items())}"
        )
    )
    if people.students:
        first = ", ".join(f"{role} {value!r}" for role, value in people.students[0].items())
        print(plain(f"the first of {len(people.students)} students: {first}"))
    for change_text, students in (("new", change.joined), ("no longer on it", change.left)):
        if students:
            print(plain(f"{change_text}: {', '.join(students)}"))
    if change.doubled:
        names = ", ".join(change.doubled)
        print(plain(f"several students have one name ({names}): collect their files by id, or with a mapping"))
    print("nothing written: --dry-run" if options.dry_run else f"written: {course.roster}")
    return OK


def _export(options: argparse.Namespace, choose: Choose) -> int:
    from ..results.class_tables import text_table
    from ..results.lms_export import canvas_export, moodle_export

    course, assignments = choose(options)
    if options.moodle is not None:
        if len(assignments) != 1:
            raise CourseError("a worksheet is of one assignment: name it with --assignment. Nothing was written.")
        export, table, archive = moodle_export(course, options.moodle, assignments[0]), "moodle", "moodle-feedback"
        table, archive = f"{table}-{assignments[0]}", f"{archive}-{assignments[0]}"
    else:
        export = canvas_export(course, options.canvas, assignments, dict(options.column))
        table, archive = "canvas", "canvas-feedback"
    lines = [("student", "name", "assignment", "in the LMS", "now")]
    lines += [(each.student, each.name, each.assignment, each.before or "–", each.after) for each in export.changes]
    print(text_table(lines) if export.changes else "no score differs from the LMS's")
    print(plain("\n".join(export.remarks), lines=True))
    folder = options.to or course.root / "export"
    paths = folder / f"{table}.csv", folder / f"{archive}.zip"
    if options.dry_run:
        print(f"{len(export.changes)} scores and {len(export.pages)} pages; nothing written: --dry-run")
        return OK
    export.write(*paths)
    print(f"{len(export.changes)} scores: {paths[0]}\n{len(export.pages)} pages: {paths[1]}")
    return OK
