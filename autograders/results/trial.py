"""Grades one file by itself, without a class: for a person who learns alone, or an instructor who wonders."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from ..course import Course, CourseError, default_assignments
from ..grading.grade import grade
from ..grading.journal import Record, read_record
from ..intake.collect import collect
from ..plain_text import plain
from ..release.release import release

_STUDENT = "you"


def try_file(path: Path, *, without_sandbox: bool = False) -> list[Record]:
    """The records of a notebook, or of each notebook in a file made by `lecture submit`.

    Everything happens in a temporary course with hidden inputs of its own, so nothing is kept, and points that depend
    on an instructor's course (a late day, a person's score) are not in it. Raises CourseError when there is no such
    file, or nothing of this course in it, and SandboxError as `grade` does.
    """
    if not path.is_file():
        raise CourseError(f"{path} is not a file: name a notebook, or a file made by `lecture submit`.")
    with tempfile.TemporaryDirectory(prefix="lecture-try-") as folder:
        course = Course(Path(folder) / "course")
        course = replace(course, without_sandbox=course.without_sandbox or without_sandbox)
        file = Path(folder) / path.name
        shutil.copyfile(path, file)
        mapping = Path(folder) / "mapping.csv"
        with mapping.open("w", encoding="utf-8", newline="") as table:
            # One person, whatever id is in the file or in its name.
            csv.writer(table).writerows([("file", "id"), ("*", _STUDENT)])
        assignments = default_assignments()
        # Its secret is new: trying the bank of answers on it would take minutes.
        release(course, assignments, verify=False)
        collected = collect(course, [file], assignments, mapping=mapping)
        names = [name for item in collected for name in item.notebooks]
        if not names:
            problems = [item.problem for item in collected if item.problem]
            raise CourseError(f"{path.name}: {'; '.join(problems) or 'nothing to grade'}")
        grade(course, names, [_STUDENT], progress=False)
        records = [read_record(course, name, _STUDENT) for name in names]
    return [record for record in records if record is not None]


def verdict_lines(record: Record, wanted: Collection[str] | None = None) -> Iterator[str]:
    """A record as lines: the sum, then each question with its parts, what went wrong and where to look.

    Args:
        record: of one notebook.
        wanted: ids of questions; default: all of them.

    """
    verdicts = record.questions.values()
    points, most = (sum(verdict[key] for verdict in verdicts) for key in ("points", "maximum"))
    yield f"{record.assignment}: {points:g} of {most:g} points ({record.state}); answers in words are for a person"
    if record.reasons:
        yield f"  {record.reason}"
    for name, verdict in record.questions.items():
        if wanted is not None and name not in wanted:
            continue
        yield f"  {name}: {verdict['points']:g} of {verdict['maximum']:g}"
        for part in verdict["parts"]:
            mark = "✓" if part["points"] == part["maximum"] else "✗"
            yield f"    {mark} {part['name']} ({part['points']:g} of {part['maximum']:g}): {plain(part['message'])}"
        if verdict["meaning"]:
            yield f"    What happened: {verdict['meaning']}"
            yield f"    Look at: {verdict['look_at']}"
