"""nbgrader's gradebook, opened with the reason when it does not open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..course import Course, CourseError
from .gradebook_lock import explain_locks, refuse_lock


@contextlib.contextmanager
def open_gradebook(course: Course) -> Iterator[Any]:
    """nbgrader's gradebook of a course.

    Raises CourseError when there is none, or one that cannot be read; GradebookLocked when another program holds it.
    """
    from nbgrader.api import Gradebook
    from sqlalchemy.exc import DatabaseError

    if not course.database.is_file():
        raise CourseError(f"{course.root} holds no gradebook: run `autograde release` first.")
    put_scripts_on_path()
    with explain_locks(course.database):
        try:
            gradebook = Gradebook(course.gradebook)
        except DatabaseError as error:
            refuse_lock(error, course.database)
            raise CourseError(f"{course.database} cannot be read: {error.orig}. {_remedy(error.orig)}") from None
        with gradebook:
            yield gradebook


def _remedy(error: BaseException | None) -> str:
    """What to do about a database that does not open. Only one that is damaged is to be replaced."""
    damaged = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    if getattr(error, "sqlite_errorcode", None) in damaged:
        return "It is damaged: keep the file, and put a copy in its place."
    return "Look at its permissions and at the disk; the file itself may be sound."


def put_scripts_on_path() -> None:
    """nbgrader calls `alembic` by name to make a database, also when the environment is not activated."""
    scripts = str(Path(sys.executable).parent)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = scripts + os.pathsep + os.environ.get("PATH", "")
