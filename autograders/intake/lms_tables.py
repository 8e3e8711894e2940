"""Tables that Canvas and Moodle export: read with their separator and encoding, columns recognised by their names."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..course import Course, CourseError
from ..files import write_text_atomically
from ..plain_text import some
from ..tables import read_csv, write_table
from .roster import Roster, is_path_safe, normal_id

ROLES = ("id", "name", "email", "lms_id")
"""The columns of roster.csv: the student's own id, the name, the address, and the number that Canvas has for them."""
POINTS_POSSIBLE = "Points Possible"
"""What stands for a name in the line of Canvas's export that holds the maxima."""
_CANDIDATES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Canvas": {
        "id": ("SIS Login ID", "SIS User ID", "ID"),
        "name": ("Student",),
        "email": ("Email",),
        "lms_id": ("ID",),
    },
    "Moodle": {
        "id": ("ID number", "Username"),
        "name": ("Full name", "First name+Last name", "First name+Surname"),
        "email": ("Email address",),
        "lms_id": (),
    },
}
_KNOWN_BY = {"Canvas": {"Student", "ID"}, "Moodle": {"Email address"}}


@dataclass(frozen=True)
class LmsTable:
    """A table as an LMS wrote it: the header, the lines, each with as many cells as the header, and the separator."""

    path: Path
    header: list[str]
    lines: list[list[str]]
    separator: str

    def column(self, name: str) -> int:
        """The place of a column. Raises CourseError when the table has none, or two, of that name."""
        if self.header.count(name) != 1:
            count = "no" if name not in self.header else "more than one"
            raise CourseError(f"{self.path}: {count} column {name!r}; it has {self.listed()}")
        return self.header.index(name)

    def cells(self, names: str) -> list[str]:
        """A column's cells, by line; of columns joined by `+`, the cells joined by a space."""
        places = [self.column(name) for name in names.split("+")]
        return [" ".join(filter(None, (line[place].strip() for place in places))) for line in self.lines]

    def listed(self) -> str:
        """The columns in words."""
        return ", ".join(map(repr, self.header))

    def write(self, path: Path, lines: Sequence[Sequence[str]]) -> None:
        """Write some lines under the same header, with the same separator."""
        text = io.StringIO()
        csv.writer(text, delimiter=self.separator, lineterminator="\n").writerows([self.header, *lines])
        write_text_atomically(path, text.getvalue())


def read_lms_table(path: Path) -> LmsTable:
    """Read an export. Raises CourseError, with the remedy, for another encoding or form."""
    table = read_csv(path)
    if len(table.header) < 2:
        first = " ".join(table.header)
        raise CourseError(
            f"{path}: no columns separated by a comma, a semicolon or a tab; its first line: {first!r:.80}"
        )
    return LmsTable(path, table.header, table.lines, table.separator)


def is_person(name: str) -> bool:
    """Whether a line of Canvas's export is of a student: the maxima and the notes above them are not."""
    return name.strip() not in ("", POINTS_POSSIBLE)


@dataclass(frozen=True)
class ClassList:
    """Who is in the class: the LMS whose export it is, which column each role came from, and a line a student."""

    lms: str
    columns: dict[str, str]
    students: list[dict[str, str]]


def read_class_list(path: Path, mapping: Mapping[str, str] | None = None) -> ClassList:
    """Who is in an export. `mapping` names columns that are not recognised: role -> column, or columns joined by `+`.

    Raises CourseError with an example when a column has to be named, and when ids are missing, doubled or no ids.
    """
    table = read_lms_table(path)
    named = dict(mapping or {})
    if unknown := sorted(set(named) - set(ROLES)):
        raise CourseError(f"no role {unknown[0]!r}; there are: {', '.join(ROLES)}")
    lms = next((name for name, columns in _KNOWN_BY.items() if columns <= set(table.header)), "")
    candidates = _CANDIDATES.get(lms, {})
    columns = {role: named.get(role) or _first_in(table, candidates.get(role, ())) for role in ROLES}
    if not columns["name"]:
        raise CourseError(_question(table))
    names = table.cells(columns["name"])
    people = [number for number, name in enumerate(names) if is_person(name) and not _is_test_student(name)]
    if "id" not in named:
        columns["id"] = _id_column(table, candidates.get("id", ()), people)
    if not columns["id"]:
        raise CourseError(_question(table))
    used = {role: column for role, column in columns.items() if column}
    cells = {role: table.cells(column) for role, column in used.items()}
    students = [{role: cells[role][number] for role in used} for number in people]
    _refuse_bad_ids(table, columns["id"], students)
    return ClassList(lms or "an LMS", used, students)


def _first_in(table: LmsTable, candidates: Sequence[str]) -> str:
    return next((names for names in candidates if set(names.split("+")) <= set(table.header)), "")


def _is_test_student(name: str) -> bool:
    """Whether it is the student that Canvas invents for the teacher's own view."""
    return name.strip() in ("Student, Test", "Test Student")


def _id_column(table: LmsTable, candidates: Sequence[str], people: Sequence[int]) -> str:
    """The first candidate that has an id for everybody; else the first, whose gaps are then told."""
    present = [name for name in candidates if name in table.header]
    full = [name for name in present if all(table.cells(name)[number] for number in people)]
    return (full or present or [""])[0]


def _refuse_bad_ids(table: LmsTable, column: str, students: list[dict[str, str]]) -> None:
    for student in students:
        student["id"] = normal_id(student["id"])
    where = f"{table.path}, column {column!r}"
    if missing := [student["name"] for student in students if not student["id"]]:
        raise CourseError(
            f"{where}: {len(missing)} students have no id ({some(missing)}). Enter them in the LMS, or name "
            "another column: --column id='Email address'. Nothing was written."
        )
    if odd := [student["id"] for student in students if not is_path_safe(student["id"])]:
        raise CourseError(f"{where}: {some(odd)} cannot be an id: it cannot name a folder. Nothing was written.")
    counts = Counter(student["id"].casefold() for student in students)
    if double := [student["id"] for student in students if counts[student["id"].casefold()] > 1]:
        raise CourseError(
            f"{where}: {some(sorted(set(double)))} is in more than one line. Give each student an id of their "
            "own, or name another column: --column id='Email address'. Nothing was written."
        )


def _question(table: LmsTable) -> str:
    """What to ask where columns are not recognised, with the table's own columns in the example."""
    sample = next(iter(table.lines), [""] * len(table.header))
    listing = "\n".join(f"  {name}: {cell}" for name, cell in zip(table.header, sample, strict=True))
    first, second = table.header[:2]
    return (
        f"{table.path}: its columns are not those of Canvas or Moodle in English. It has, with the first line:\n"
        f"{listing}\n"
        "Say which column holds the id and which the name (columns joined by +), for example:\n"
        f"  autograde roster {table.path.name} --column id='{table.header[-1]}' --column name='{first}+{second}'\n"
        "Nothing was written."
    )


@dataclass(frozen=True)
class RosterChange:
    """What a new roster changes: who comes, who goes, and names that several students have."""

    joined: list[str]
    left: list[str]
    doubled: list[str]


def write_roster(course: Course, people: ClassList, *, dry_run: bool = False) -> RosterChange:
    """Write roster.csv from a class list; the one before is kept as roster-before.csv. With `dry_run` nothing is.

    Raises CourseError when the course does not exist, or its present roster cannot be read.
    """
    if not course.root.is_dir():
        raise CourseError(f"{course.root} does not exist: run `autograde release` first.")
    before = set(Roster(course).names)
    after = {student["id"] for student in people.students}
    names = Counter(student["name"] for student in people.students)
    change = RosterChange(
        sorted(after - before), sorted(before - after), sorted(name for name, count in names.items() if count > 1)
    )
    if not dry_run:
        if course.roster.exists():
            write_text_atomically(course.root / "roster-before.csv", course.roster.read_text("utf-8-sig"))
        lines = [[student.get(role, "") for role in ROLES] for student in people.students]
        write_table(course.roster, [ROLES, *lines])
    return change
