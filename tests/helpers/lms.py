"""Canvas and Moodle as far as a round trip needs them: they export a class, and read back what an instructor uploads.

What they read and write follows their documentation: Canvas's gradebook CSV ("How do I import grades in the
Gradebook", with the line of maxima and the test student) and the names of its downloaded submissions; Moodle's grading
worksheet and its zip of feedback files, whose names its importer splits at the first four underscores.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Person:
    """A student as both systems know them."""

    id: str
    name: str
    number: int

    @property
    def surname_first(self) -> str:
        """The name as Canvas's export has it."""
        *first, last = self.name.split()
        return f"{last}, {' '.join(first)}"


def canvas_gradebook(
    people: Sequence[Person],
    columns: Sequence[str],
    scores: Mapping[str, Sequence[str]] | None = None,
    maximum: str = "19.00",
) -> str:
    """A gradebook as Canvas exports it, with the scores that it has already."""
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *columns, "Current Score"]
    lines = [
        header,
        ["", "", "", "", "", *["Manual Posting"] * len(columns), ""],
        ["    Points Possible", "", "", "", "", *[maximum] * len(columns), "(read only)"],
    ]
    for person in people:
        own = (scores or {}).get(person.id, [""] * len(columns))
        lines.append([person.surname_first, str(person.number), f"S{person.number}", person.id, "Lecture", *own, "0.0"])
    lines.append(["Student, Test", "99999", "", "0f3a", "Lecture", *[""] * len(columns), ""])
    return as_csv(lines)


def canvas_reads(text: str) -> dict[int, dict[str, str]]:
    """What Canvas takes from an upload: by its own number of the student, the cells of the assignments' columns."""
    lines = csv.DictReader(io.StringIO(text))
    assert lines.fieldnames is not None
    assert {"Student", "ID", "Section"} <= set(lines.fieldnames)
    columns = [name for name in lines.fieldnames if re.search(r"\(\d+\)$", name)]
    return {int(line["ID"]): {name: line[name] for name in columns} for line in lines}


def canvas_file(person: Person, attachment: int, name: str, late: bool = False) -> str:
    """The name that Canvas gives a submission in the archive of all."""
    joined = re.sub(r"[^a-z]", "", "".join(reversed(person.name.lower().split())))
    return f"{joined}_{'LATE_' if late else ''}{person.number}_{attachment}_{name}"


def canvas_feedback(archive: Path) -> dict[int, bytes]:
    """Whose each file of a re-uploaded archive is: the first number in a name is the student's, the next the file's."""
    found = {}
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            student, _ = [int(part) for part in name.rpartition("/")[2].split("_") if part.isdigit()][:2]
            found[student] = files.read(name)
    return found


def moodle_worksheet(
    people: Sequence[Person],
    grades: Mapping[str, str] | None = None,
    maximum: str = "19.00",
    locked: Sequence[str] = (),
) -> str:
    """A grading worksheet as Moodle writes it."""
    lines = [
        [
            *("Identifier", "Full name", "ID number", "Email address", "Status", "Grade", "Maximum grade"),
            *("Grade can be changed", "Last modified (submission)", "Last modified (grade)", "Feedback comments"),
        ]
    ]
    for person in people:
        grade = (grades or {}).get(person.id, "")
        changeable = "No" if person.id in locked else "Yes"
        lines.append(
            [
                *(f"Participant {person.number}", person.name, person.id, f"{person.id}@example.org"),
                *("Submitted for grading", grade, maximum, changeable, "-", "-", ""),
            ]
        )
    return as_csv(lines)


def moodle_reads(text: str) -> dict[int, str]:
    """What Moodle takes from an upload: the grade by participant."""
    return {int(line["Identifier"].split()[1]): line["Grade"] for line in csv.DictReader(io.StringIO(text))}


def moodle_file(person: Person, name: str) -> str:
    """The name that Moodle gives a submission in the archive of all."""
    return f"{person.name}_{person.number}_assignsubmission_file_/{name}"


def moodle_feedback(archive: Path) -> dict[int, bytes]:
    """Whose each file of a feedback zip is, as Moodle's importer splits the names."""
    found = {}
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            _, number, plugin, kind, _ = name.split("_", 4)
            assert (plugin, kind) == ("assignsubmission", "file")
            found[int(number)] = files.read(name)
    return found


def as_csv(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
