"""Deletes what a course's folder holds of one student, in all its places, and says where that was."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ..course import Course, CourseError
from ..intake.notes import read_not_placed, update_not_placed
from ..intake.reading.archives import is_folder
from ..intake.roster import normal_id
from ..nbgrader.database import open_gradebook
from ..nbgrader.graders import forget_marks
from ..release.history import REMOVED_SCORES
from ..results.rows import rows
from ..tables import read_csv, read_table, write_table
from ..writer import only_writer

_FOLDERS = ("submitted", "received", "autograded", "feedback", "attempts", "set-aside")
"""Folders with a folder for each student."""
_TABLES = {
    "roster.csv": "id", "roster-before.csv": "id", "grades.csv": "student", "grades-wide.csv": "student",
    "questions.csv": "student", "known.csv": "student", REMOVED_SCORES: "student",
}  # fmt: skip
"""Tables with lines of students, and the column of the id."""
_MADE_AGAIN = ("report.html", "export")
"""What may name anybody and is made again by a command."""
ANONYMOUS = ("assignment", "state", "score", "max_score")
"""What `anonymous.csv` keeps of a student: nothing that tells who it was."""


def places_of(course: Course, student: str) -> list[str]:
    """Where in the course's folder something of a student is, in words. Raises CourseError when the id is none."""
    if not student or PurePosixPath(student).name != student or student.startswith("."):
        raise CourseError(f"{student!r} is not a student's id. Nothing was deleted.")
    places = [str(path.relative_to(course.root)) for path in _paths(course, student)]
    places += [f"{name} ({count} lines)" for name, count in _lines(course, student).items()]
    if loose := [entry for entry in read_not_placed(course) if entry.concerns(student)]:
        places.append(f"collected/not-placed.json ({len(loose)} entries)")
    if _in_gradebook(course, student):
        places.append("gradebook.db")
    if places:
        places += [name for name in _MADE_AGAIN if (course.root / name).exists()]
    return places


def forget(course: Course, student: str, assignments: Sequence[str], *, keep_statistics: bool = False) -> list[str]:
    """Delete everything of a student; returns the places. Killed in between, the same command deletes the rest.

    With `keep_statistics` state and score of each assignment go into `anonymous.csv`, without an id.

    Raises CourseError when nothing is there of this id.
    """
    with only_writer(course, "forget"):
        places = places_of(course, student)
        if not places:
            raise CourseError(f"nothing of {student!r} is in {course.root}: `autograde gradebook` lists the class.")
        if keep_statistics:
            _keep_anonymously(course, student, assignments)
        for path in _paths(course, student):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        update_not_placed(course, [], lambda entry: entry.concerns(student))
        for name in _MADE_AGAIN:
            path = course.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if _in_gradebook(course, student):
            with open_gradebook(course) as gradebook:
                gradebook.remove_student(student)
            forget_marks(course, student)
        # What SQLite deletes stays in the file until the file is written anew.
        _vacuum(course)
        for name in _lines(course, student):
            _without_lines(course.root / name, _TABLES[name], student)
        return places


def _paths(course: Course, student: str) -> list[Path]:
    paths = [course.root / folder / student for folder in _FOLDERS]
    # A folder here is an assignment's; a student may have the id that is its name.
    for folder in (path for place in ("journal", "collected") for path in sorted((course.root / place).glob("*"))):
        paths += [folder / f"{student}.json", *([folder / student] if is_folder(folder / student) else [])]
    return [path for path in paths if path.exists() or path.is_symlink()]


def _lines(course: Course, student: str) -> dict[str, int]:
    """How many lines of each table are a student's."""
    counts: dict[str, int] = {}
    for name, column in _TABLES.items():
        path = course.root / name
        if path.is_file():
            own = [row for row in read_table(path) if normal_id(row.get(column, "")) == student]
            counts |= {name: len(own)} if own else {}
    return counts


def _without_lines(path: Path, column: str, student: str) -> None:
    table = read_csv(path)
    kept = [row.values() for row in table.rows() if normal_id(row.get(column, "")) != student]
    write_table(path, [table.header, *kept])


def _in_gradebook(course: Course, student: str) -> bool:
    if not course.database.is_file():
        return False
    from nbgrader.api import MissingEntry

    with open_gradebook(course) as gradebook:
        try:
            gradebook.find_student(student)
        except MissingEntry:
            return False
        return True


def _vacuum(course: Course) -> None:
    import sqlite3
    from contextlib import closing

    if course.database.is_file():
        with closing(sqlite3.connect(course.database)) as database:
            database.execute("VACUUM")


def _keep_anonymously(course: Course, student: str, assignments: Sequence[str]) -> None:
    path = course.root / "anonymous.csv"
    kept: list[list[object]] = (
        [[line[name] for name in ANONYMOUS] for line in read_table(path)] if path.is_file() else []
    )
    own = [row for row in rows(course, assignments) if row.student == student]
    new: list[list[object]] = [[row.assignment, str(row.state), row.score, row.max_score] for row in own]
    # In order of the scores: the place of a line tells nobody when it was added.
    lines = sorted([*kept, *new], key=lambda line: [str(cell) for cell in line])
    write_table(path, [ANONYMOUS, *lines])
