"""A gradebook that another program holds: the error names the program and says what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ..course import LOCK_SECONDS, CourseError

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class GradebookLocked(CourseError):  # noqa: N818 - a state of a file
    """Another program holds the gradebook; the message says which, and what to do."""


@contextlib.contextmanager
def explain_locks(path: Path) -> Iterator[None]:
    """Turn SQLite's error about a lock on the database at `path`, whatever wraps it, into GradebookLocked."""
    try:
        yield
    except Exception as error:
        refuse_lock(error, path)
        raise


def refuse_lock(error: BaseException | None, path: Path) -> None:
    """Raise GradebookLocked when `error`, or what it was raised from, is SQLite's about a lock."""
    if any(isinstance(cause, sqlite3.OperationalError) and _code(cause) in _BUSY for cause in causes(error)):
        raise GradebookLocked(
            f"{path} is locked by {_holders(path)}, and was for {LOCK_SECONDS:g} seconds. Close that program, or wait "
            "until it is done, and run the same command again: what was finished is kept, and it goes on from there. "
            "The gradebook itself is sound; leave it as it is."
        ) from None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was raised from, SQLAlchemy's wrapping included."""
    # Exceptions can refer to each other in a circle.
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__


def _code(error: sqlite3.OperationalError) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # without the detail in the upper bytes


def _holders(path: Path) -> str:
    """The processes that hold a lock on a file, by number and command, where the system tells."""
    processes = sorted(_holding(path))
    descriptions = []
    for number in processes:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            descriptions.append(f"process {number} ({' '.join(filter(None, words))[:100]})")
    return ", ".join(descriptions) or "another program (a database browser, formgrader, a backup or a sync client?)"


def _holding(path: Path) -> Iterator[int]:
    locks = Path("/proc/locks")
    if not locks.exists():
        return
    node = path.stat().st_ino
    for line in locks.read_text().splitlines():
        # "12: POSIX  ADVISORY  WRITE 4711 fe:01:131073 1073741824 1073742335"; one that waits has "->" before POSIX
        words = line.split()
        if "->" in words or len(words) < 6:
            continue
        number, inode = int(words[4]), words[5].rpartition(":")[2]
        if inode == str(node) and number not in (0, -1, os.getpid()):
            yield number
