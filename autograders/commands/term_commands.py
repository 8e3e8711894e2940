"""The commands for the life of a term: `autograde extend`, `forget`, `backup` and `restore`."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable
from pathlib import Path

from ..course import Course, CourseError
from ..plain_text import plain

Add = Callable[..., argparse.ArgumentParser]
Choose = Callable[[argparse.Namespace], tuple[Course, list[str]]]
OK = 0


def add_term_commands(add: Add, choose: Choose) -> None:
    """Add the commands to a parser; `choose` gives the course and the assignments that the options name."""
    text = "Give one student more time for an assignment; the penalty of what was graded is computed again."
    command = add("extend", lambda options: _extend(options, choose), text)
    command.add_argument("student", metavar="STUDENT", help="the student's id")
    command.add_argument("name", metavar="ASSIGNMENT", help="the assignment, such as 03a-training-recipe")
    text = "the new due date with its zone, such as '2026-03-08 23:59 +0100'; none takes the extension back"
    command.add_argument("--until", required=True, metavar="TIME", help=text)

    text = "List everything that the course's folder holds of one student; with --yes delete it."
    command = add("forget", lambda options: _forget(options, choose), text)
    command.add_argument("student", metavar="STUDENT", help="the student's id")
    command.add_argument("--yes", action="store_true", help="delete; without it the places are listed alone")
    text = "keep state and score of each assignment in anonymous.csv, without an id"
    command.add_argument("--keep-statistics", action="store_true", help=text)

    command = add("backup", lambda options: _backup(options, choose), "Write the course with its secret into one file.")
    command.add_argument("file", type=Path, metavar="FILE", help="a new file, outside the course's folder")
    text = "encrypt the file: a passphrase is asked for, or read as a line from a pipe"
    command.add_argument("--passphrase", action="store_true", help=text)

    text = "Make a course's folder from a backup, on this machine or another."
    command = add("restore", lambda options: _restore(options, choose), text)
    command.add_argument("file", type=Path, metavar="FILE", help="what `autograde backup` wrote")
    text = "the backup is encrypted: its passphrase is asked for, or read as a line from a pipe"
    command.add_argument("--passphrase", action="store_true", help=text)


def _extend(options: argparse.Namespace, choose: Choose) -> int:
    from ..notebooks import master_path
    from ..term.extend import extend

    course, _ = choose(options)
    master_path(options.name)
    print(plain(extend(course, options.student, options.name, options.until)))
    return OK


def _forget(options: argparse.Namespace, choose: Choose) -> int:
    from ..term.forget import forget, places_of

    course, assignments = choose(options)
    if options.yes:
        places = forget(course, options.student, assignments, keep_statistics=options.keep_statistics)
    else:
        places = places_of(course, options.student)
    print(plain("\n".join(places), lines=True))
    done = "deleted in" if options.yes else "nothing deleted: add --yes to delete"
    print(plain(f"{options.student}: {done} {len(places)} places"))
    print("Not touched: backups, what was exported or sent elsewhere, and the LMS.")
    return OK


def _backup(options: argparse.Namespace, choose: Choose) -> int:
    from ..term.backup import back_up

    course, _ = choose(options)
    result = back_up(course, options.file, _passphrase("Passphrase: ", twice=True) if options.passphrase else None)
    print(f"{result.files} files, {result.size:,} bytes: {options.file}")
    if result.left_out:
        print(plain(f"left out, since they are links or pipes: {', '.join(result.left_out)}"))
    if not options.passphrase:
        print(
            f"warning: whoever gets {options.file} can read the secret, names and scores. Encrypt it with "
            "--passphrase, or keep it where nobody else reads.",
            file=sys.stderr,
        )
    return OK


def _restore(options: argparse.Namespace, choose: Choose) -> int:
    from ..term.backup import restore

    course, _ = choose(options)
    count = restore(options.file, course, _passphrase("Passphrase: ") if options.passphrase else None)
    print(f"{count} files: {course.root}. `autograde feedback` makes the pages again.")
    return OK


def _passphrase(prompt: str, *, twice: bool = False) -> str:
    """A passphrase from the terminal, or the first line of what is piped in. Raises CourseError for an empty one."""
    if not sys.stdin.isatty():
        text = sys.stdin.readline().rstrip("\n")
    else:
        text = getpass.getpass(prompt)
        if twice and getpass.getpass("The same again: ") != text:
            raise CourseError("the two passphrases differ. Nothing was written.")
    if not text:
        raise CourseError("the passphrase is empty. Nothing was written.")
    return text
