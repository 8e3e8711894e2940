"""Scores and feedback in the form that Canvas and Moodle take back: their own file, and the archive beside it."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..course import Course, CourseError
from ..files import write_bytes_atomically
from ..grading.states import State
from ..intake.lms_tables import POINTS_POSSIBLE, LmsTable, is_person, read_lms_table
from ..intake.notes import note_in_force
from ..intake.roster import CANVAS_FILE, Roster, normal_id
from ..plain_text import some
from .row import ScoreRow, points_text
from .rows import rows

_CANVAS_IDS = ("SIS Login ID", "SIS User ID", "Integration ID", "ID")
_CANVAS_PERSON = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")
"""The columns by which Canvas knows a line; it needs them to read the file."""
_WORKSHEET = ("Identifier", "Full name", "Grade", "Maximum grade")


@dataclass(frozen=True)
class ScoreChange:
    """A score that the LMS does not have yet, as its file writes it."""

    student: str
    name: str
    assignment: str
    before: str
    after: str


@dataclass(frozen=True)
class LmsExport:
    """What goes back to an LMS: the table with the lines that change, the pages by the names it wants, and remarks."""

    table: LmsTable
    lines: list[list[str]]
    changes: list[ScoreChange]
    pages: dict[str, Path]
    remarks: list[str]

    def write(self, table: Path, archive: Path) -> None:
        """Write the table and the archive of feedback pages, each whole or not at all."""
        self.table.write(table, self.lines)
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as feedback:
            for name, page in sorted(self.pages.items()):
                feedback.write(page, name)
        write_bytes_atomically(archive, content.getvalue())


def canvas_export(
    course: Course, path: Path, assignments: Sequence[str], columns: Mapping[str, str] | None = None
) -> LmsExport:
    """The scores for Canvas's gradebook, from the CSV that it exports.

    Args: the course, Canvas's file, the assignments, and which column an assignment has where that is not clear.

    Raises CourseError, before anything is written, when the file is of another form or course, when a column has to be
    named, when maxima differ, and when it is not clear which line is whose.
    """
    table = read_lms_table(path)
    _require(table, ("Student", "ID"), "Canvas (Gradebook, Export)")
    place = {name: table.column(_canvas_column(table, name, dict(columns or {}))) for name in assignments}
    class_rows = _final_rows(course, assignments)
    student_column = table.column("Student")
    for line in table.lines:
        if line[student_column].strip() == POINTS_POSSIBLE:
            for name in assignments:
                _refuse_other_maximum(table, table.header[place[name]], line[place[name]], class_rows.maximum(name))
    people = [line for line in table.lines if is_person(line[student_column])]
    ids = [[line[table.column(name)] for name in _CANVAS_IDS if name in table.header] for line in people]
    lms_ids = [line[table.column("ID")] for line in people]
    owners = _owners(course, table, ids, [line[student_column] for line in people], lms_ids=lms_ids)
    changes, lines = [], []
    for line, student in zip(people, owners, strict=True):
        updated = list(line)
        for name in assignments:
            if (score := class_rows.score(student, name)) is not None and _differs(line[place[name]], score):
                updated[place[name]] = points_text(score)
                changes.append(
                    ScoreChange(student, line[student_column], name, line[place[name]], updated[place[name]])
                )
        if updated != line:
            lines.append(updated)
    kept = [
        number for number, column in enumerate(table.header) if column in _CANVAS_PERSON or number in place.values()
    ]
    part = LmsTable(path, [table.header[number] for number in kept], [], table.separator)
    pages, without_name = _canvas_pages(course, assignments, [student for student in owners if student])
    remarks = _remarks(class_rows, owners, people, student_column)
    if without_name:
        remarks.append(
            f"no feedback file for {some(without_name)}: their notebook did not come from Canvas, which finds the "
            "person by the name that it gave the file"
        )
    return LmsExport(part, [[line[number] for number in kept] for line in lines], changes, pages, remarks)


def moodle_export(course: Course, path: Path, assignment: str) -> LmsExport:
    """The scores for one Moodle assignment, from its grading worksheet.

    Raises CourseError, before anything is written, when the file is of another form or course, when maxima differ, and
    when it is not clear which line is whose.
    """
    table = read_lms_table(path)
    _require(table, _WORKSHEET, "Moodle (the assignment's submissions, Download grading worksheet, in English)")
    class_rows = _final_rows(course, [assignment])
    columns = {name: table.column(name) for name in _WORKSHEET}
    changeable = table.header.index("Grade can be changed") if "Grade can be changed" in table.header else None
    for maximum in {line[columns["Maximum grade"]] for line in table.lines}:
        _refuse_other_maximum(table, "Maximum grade", maximum, class_rows.maximum(assignment))
    ids = [[line[table.column("ID number")]] if "ID number" in table.header else [] for line in table.lines]
    emails = table.cells("Email address") if "Email address" in table.header else None
    names = [line[columns["Full name"]] for line in table.lines]
    owners = _owners(course, table, ids, names, emails=emails)
    comma = any("," in line[columns[name]] for line in table.lines for name in ("Grade", "Maximum grade"))
    changes, lines, pages, locked = [], [], {}, []
    for line, student in zip(table.lines, owners, strict=True):
        number = "".join(re.findall(r"\d+", line[columns["Identifier"]]))
        page = course.notebook("feedback", assignment, student).with_suffix(".html") if student else None
        if page is not None and page.is_file() and number:
            # Moodle splits the name at its underscores: the person, the number, the plugin, the file.
            name = re.sub(r"[/\\_]", " ", line[columns["Full name"]]).strip() or student
            pages[f"{name}_{number}_assignsubmission_file_{page.name.replace('_', '-')}"] = page
        score, before = class_rows.score(student, assignment), line[columns["Grade"]]
        if score is None or not _differs(before, score):
            continue
        if changeable is not None and line[changeable].strip().casefold() == "no":
            locked.append(student)
            continue
        after = points_text(score).replace(".", ",") if comma else points_text(score)
        lines.append([after if place == columns["Grade"] else cell for place, cell in enumerate(line)])
        changes.append(ScoreChange(student, line[columns["Full name"]], assignment, before, after))
    remarks = _remarks(class_rows, owners, table.lines, columns["Full name"])
    if locked:
        remarks.append(f"Moodle has locked the grades of {some(locked)}: left as they are")
    return LmsExport(table, lines, changes, pages, remarks)


class _ClassRows:
    """The rows of the gradebook, by student and assignment; a score is final when nothing waits for a person."""

    def __init__(self, class_rows: Sequence[ScoreRow]) -> None:
        self._rows = {(row.student, row.assignment): row for row in class_rows}

    def score(self, student: str, assignment: str) -> float | None:
        row = self._rows.get((student, assignment))
        return None if row is None or row.by_hand_open else row.score

    def maximum(self, assignment: str) -> float | None:
        return next(
            (row.max_score for row in self._rows.values() if row.assignment == assignment and row.max_score), None
        )

    def waiting(self) -> list[str]:
        return sorted({row.student for row in self._rows.values() if row.by_hand_open})

    def not_graded(self) -> list[str]:
        return sorted({row.student for row in self._rows.values() if row.state == State.NOT_GRADED})

    def without_score(self) -> list[str]:
        without = {row.student for row in self._rows.values() if row.score is None}
        return sorted(without.difference(self.not_graded()))

    def scored(self) -> set[str]:
        return {row.student for row in self._rows.values() if row.score is not None}


def _final_rows(course: Course, assignments: Sequence[str]) -> _ClassRows:
    return _ClassRows(rows(course, assignments))


def _require(table: LmsTable, columns: Sequence[str], source: str) -> None:
    if missing := [name for name in columns if name not in table.header]:
        raise CourseError(
            f"{table.path}: no column {missing[0]!r}; it has {table.listed()}. Export it again from {source}; with the "
            "LMS in another language, switch it to English for the download. Nothing was written."
        )


def _canvas_column(table: LmsTable, assignment: str, named: Mapping[str, str]) -> str:
    """The column of an assignment: the one that was named, else the only one whose title holds its name or number."""
    if assignment in named:
        table.column(named[assignment])
        return named[assignment]
    number = assignment.partition("-")[0]
    titles = {
        column: re.sub(r"\s*\(\d+\)\s*$", "", column) for column in table.header if re.search(r"\(\d+\)\s*$", column)
    }
    for pattern in (rf"^{re.escape(assignment)}$", rf"(?<![\w-]){re.escape(assignment)}(?![\w-])", rf"\b{number}\b"):
        matching = [column for column, title in titles.items() if re.search(pattern, title, re.IGNORECASE)]
        if len(matching) == 1:
            return matching[0]
    example = next(iter(titles), "Assignment 1 (12345)")
    raise CourseError(
        f"{table.path}: no single column is {assignment}; its assignments are {some(list(titles)) or 'none'}. "
        f"Name the column: --column {assignment}='{example}'. Nothing was written."
    )


def _refuse_other_maximum(table: LmsTable, column: str, text: str, maximum: float | None) -> None:
    most = _value(text)
    if maximum is not None and most is not None and most != maximum:
        here = points_text(maximum)
        raise CourseError(
            f"{table.path}: {column} has {points_text(most)} points in the LMS and {here} here. Give the assignment "
            f"{here} points there and export it again. Nothing was written."
        )


def _owners(
    course: Course,
    table: LmsTable,
    ids: Sequence[Sequence[str]],
    names: Sequence[str],
    *,
    lms_ids: Sequence[str] | None = None,
    emails: Sequence[str] | None = None,
) -> list[str]:
    """The student of each line, "" where it is nobody's: by Canvas's number, an id, the address, and last the name.

    Raises CourseError when two lines are one student's, when a name or an address is that of several and nothing else
    tells them apart, and when hardly any line is of this course.
    """
    roster = Roster(course)
    by_email = defaultdict(list)
    for enrolled, address in roster.emails.items():
        by_email[address.strip().casefold()].append(enrolled)
    owners, unclear, shared = [], list[str](), list[str]()
    same_names = Counter(names)
    for number, name in enumerate(names):
        address = emails[number].strip().casefold() if emails else ""
        of_address = by_email.get(address, []) if address else []
        student = roster.by_lms_id(lms_ids[number].strip()) if lms_ids else None
        student = student or next((own for text in ids[number] if (own := normal_id(text)) in roster), None)
        student = student or (of_address[0] if len(of_address) == 1 else None)
        if student is None:
            student = roster.by_name(name)
            if student is not None and same_names[name] > 1:
                student = None
                unclear.append(name)
            elif student is None and of_address:
                shared.append(name)
        owners.append(student or "")
    count_of = Counter(filter(None, owners))
    remedy = "Give each line an id of the roster (`autograde roster FILE` takes the LMS's own). Nothing was written."
    if unclear:
        raise CourseError(f"{table.path}: {some(sorted(set(unclear)))} is in several lines, without an id. {remedy}")
    if shared:
        raise CourseError(
            f"{table.path}: several students of the roster have the address of {some(sorted(set(shared)))}, and no id "
            f"or name tells them apart. {remedy}"
        )
    if double := sorted(student for student, count in count_of.items() if count > 1):
        raise CourseError(f"{table.path}: more than one line is of {some(double)}. {remedy}")
    if 2 * len(count_of) < len(owners):
        raise CourseError(
            f"{table.path}: {len(count_of)} of {len(owners)} lines are of students on this course's roster. Is it the "
            "file of another course? If not, take the roster from it first: `autograde roster FILE`. Nothing was "
            "written."
        )
    return owners


def _canvas_pages(
    course: Course, assignments: Sequence[str], students: Sequence[str]
) -> tuple[dict[str, Path], list[str]]:
    """The feedback pages by the names of the files that students handed in, and the students without such a name."""
    pages: dict[str, Path] = {}
    without = []
    for assignment in assignments:
        for student in students:
            page = course.notebook("feedback", assignment, student).with_suffix(".html")
            if not page.is_file():
                continue
            note = note_in_force(course, assignment, student)
            parts = PurePosixPath(note.file).parts if note is not None else ()
            name = next((part for part in parts if CANVAS_FILE.match(part)), None)
            if name is None:
                without.append(student)
            else:
                pages[f"{assignment}/{name}.html" if len(assignments) > 1 else f"{name}.html"] = page
    return pages, sorted(set(without))


def _remarks(class_rows: _ClassRows, owners: Sequence[str], lines: Sequence[Sequence[str]], name: int) -> list[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    groups["left out, on no roster"] = [line[name] for line, owner in zip(lines, owners, strict=True) if not owner]
    groups["left out, a question waits for a person"] = class_rows.waiting()
    groups["handed in and not graded yet, left as they are"] = class_rows.not_graded()
    groups["without a score, left as they are"] = class_rows.without_score()
    groups["with a score, and not in the LMS's file"] = sorted(class_rows.scored() - set(owners))
    return [f"{remark}: {some(students)}" for remark, students in groups.items() if students]


def _value(text: str) -> float | None:
    """A number as an LMS writes it, with a point or a comma; None where there is none."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _differs(before: str, score: float) -> bool:
    value = _value(before)
    return value is None or abs(value - float(points_text(score))) > 0.004
