"""Takes out of a submission's folder what nbgrader's own converters would follow, wait for or stop at.

`autograde grade` needs none of it: nbgrader reads a prepared folder there. Plain `nbgrader autograde` copies a folder
with everything in it, follows links, waits for pipes, and fails on an unreadable time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..course import Course
from ..files import write_text_atomically
from ..intake.reading.archives import kind_of
from ..intake.times import TIMESTAMP, handed_in


class SetAsideOddFiles:
    """nbgrader's hook before a submission is converted."""

    def __init__(self, root: str) -> None:
        """Args: the course's working folder."""
        self._course = Course(Path(root))

    def __call__(self, assignment: str, student: str, notebooks: Iterable[str]) -> None:
        """Move links, pipes, devices and unreadable times to `set-aside/ID/ASSIGNMENT/`: nothing is lost."""
        submitted = self._course.step("submitted", "").resolve()
        for folder in {Path(notebook).parent for notebook in notebooks}:
            if folder.absolute().parents[1] == submitted:
                self._clean(folder)

    def _clean(self, folder: Path) -> None:
        to = self._course.root / "set-aside" / folder.parent.name / folder.name
        for path in (folder.parent, folder):
            if path.is_symlink():
                _move(path, to, path.name)
                return
        arrival = handed_in(folder)
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = Path(parent) / name
                if kind_of(path) is not None:
                    _move(path, to, path.relative_to(folder).as_posix())
        if arrival.time is not None and arrival.note:
            if (folder / TIMESTAMP).exists():
                _move(folder / TIMESTAMP, to, TIMESTAMP)
            write_text_atomically(folder / TIMESTAMP, f"{arrival.time:%Y-%m-%d %H:%M:%S} UTC\n")


def _move(path: Path, to: Path, name: str) -> None:
    to.mkdir(parents=True, exist_ok=True)
    path.rename(to / name.replace("/", "__"))
