"""The commands `autograde release`, `variants` and `publish`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..course import Course, released
from .class_commands import OK, Add, Choose

if TYPE_CHECKING:
    from ..release.history import History


def add_release_commands(add: Add, choose: Choose) -> None:
    """Add the commands to a parser; `choose` gives the course and the assignments that the options name."""
    text = "Build the student's bundle; refuse when it gives an answer away or a grader errs on too many inputs."
    command = add("release", lambda options: _release(options, choose), text)
    _add_verification(command)
    text = "instead, write the released notebooks with solutions, once the last due date or extension has passed"
    command.add_argument("--solutions", action="store_true", help=text)
    command.add_argument("--early", action="store_true", help="with --solutions: also before the last due date")

    text = "For those who grade by hand: what is in the questions that differ from course to course, such as 03b-debug."
    add("variants", lambda options: _variants(options, choose), text)

    text = "Release, and write the repository that students clone or open on Binder and Colab: checked, ready to push."
    command = add("publish", lambda options: _publish(options, choose), text)
    text = "the web address of the public repository, such as https://github.com/OWNER/NAME"
    command.add_argument("--repository", required=True, metavar="URL", help=text)
    text = "where to write it: a folder that does not exist"
    command.add_argument("--to", required=True, type=Path, metavar="DIR", help=text)
    _add_verification(command)


def _add_verification(command: argparse.ArgumentParser) -> None:
    text = "do not try the bank of answers on this course's hidden inputs first (that takes minutes for a new secret)"
    command.add_argument("--skip-verify", action="store_true", help=text)
    text = "also when students have handed in from an earlier release; without it the command says what that changes"
    command.add_argument("--replace", action="store_true", help=text)
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def _release(options: argparse.Namespace, choose: Choose) -> int:
    course, assignments = choose(options)
    if options.solutions:
        from ..release.solutions import write_solutions

        if not options.assignment:  # solutions of what students got, not of what was built since
            assignments = released(course) or assignments
        folder = write_solutions(course, assignments, early=options.early)
        print(f"for students: {folder} (the same as one file: {folder}.zip)")
        return OK
    from ..questions.seeds import read_secret
    from ..release.history import read_history
    from ..release.release import release
    from ..release.release_check import chosen_variants

    before = read_history(course)
    verify, progress = not options.skip_verify, not options.quiet
    with _telling_what_was_kept(course):
        released_now = release(course, assignments, verify=verify, progress=progress, replace=options.replace)
    for name, version in released_now.items():
        print(f"released {name}, version {version}")
    for variant in chosen_variants(read_secret(course.secret), assignments):
        print(variant)
    _print_effects(course, assignments, before)
    print(f"for students: {course.bundle} (the same as one file: {course.bundle}.zip)")
    return OK


def _variants(options: argparse.Namespace, choose: Choose) -> int:
    from ..questions.seeds import read_secret
    from ..release.release_check import chosen_variants

    course, assignments = choose(options)
    for name in assignments:
        course.require_release(name)
    lines = list(chosen_variants(read_secret(course.secret), assignments, contents=True))
    print("\n".join(lines) or "all questions are the same in every course")
    return OK


@contextlib.contextmanager
def _telling_what_was_kept(course: Course) -> Iterator[None]:
    """Say where a release kept files that somebody had changed in the student's folder."""
    before = set(course.root.glob("edited-*"))
    yield
    for folder in sorted(set(course.root.glob("edited-*")) - before):
        print(f"files that somebody had changed in {course.bundle} were kept: {folder}")


def _publish(options: argparse.Namespace, choose: Choose) -> int:
    from ..release.history import read_history
    from ..release.publish import publish

    course, assignments = choose(options)
    before = read_history(course)
    verify, progress = not options.skip_verify, not options.quiet
    where = options.repository, options.to
    with _telling_what_was_kept(course):
        published = publish(course, assignments, *where, verify=verify, progress=progress, replace=options.replace)
    print(published)
    _print_effects(course, assignments, before)
    return OK


def _print_effects(course: Course, assignments: list[str], before: History) -> None:
    """What the releases that were not there before mean for what was handed in."""
    from ..release.history import effects, read_history

    for name, releases in read_history(course).items():
        if name in assignments and len(releases) > max(1, len(before.get(name, ()))):
            for line in effects(course, name, *releases[-2:]):
                print(line)
