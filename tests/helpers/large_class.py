"""A class of any size from one that was graded: its records, files and scores under new names, without a kernel."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
import zipfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

from nbformat import NotebookNode

from autograders.course import Course
from autograders.grading.journal import read_record, write_record
from autograders.intake.intake import submission_digest, submitted_students

COPIED = ("submitted", "received", "autograded")
SHARED = ("release", "source")


def multiply(graded: Course, to: Path, count: int, assignments: Sequence[str]) -> Course:
    """A course with `count` students, each a copy of one of those who were graded, in turn; all are on its roster.

    Files that nobody changes are hard links where the two folders share a disk, so that 5,000 students fit on it.
    """
    course = without_submissions(graded, to)
    first = assignments[0]
    models = sorted(path.stem for path in graded.journal(first, "x").parent.glob("*.json"))
    students = {f"student-{number:05}": models[number % len(models)] for number in range(count)}
    for assignment in assignments:
        records = {model: read_record(graded, assignment, model) for model in models}
        for student, model in students.items():
            for step in COPIED:
                source, target = graded.notebook(step, assignment, model), course.notebook(step, assignment, student)
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    link(source, target)
            if (record := records[model]) is not None:
                write_record(course, replace(record, student=student))
    copy_scores(course, students)
    rows = "".join(f"{student},Student Number{student[-5:]}\n" for student in students)
    course.roster.write_text(f"id,name\n{rows}", "utf-8")
    return course


def without_submissions(graded: Course, to: Path) -> Course:
    """A course with the secret, the gradebook and the releases of another one."""
    to.mkdir(parents=True)
    for name in ("secret", "sets.json", "gradebook.db"):
        if (graded.root / name).exists():
            shutil.copy2(graded.root / name, to / name)
    for name in SHARED:
        shutil.copytree(graded.root / name, to / name)
    return Course(to)


def link(source: Path, target: Path) -> None:
    """A hard link, or a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def copy_scores(course: Course, students: dict[str, str]) -> None:
    """Enter every new student with the scores and comments of the one who was graded; those then leave the class."""
    with closing(sqlite3.connect(course.database)) as database, database:

        def all_of(table: str, column: str, value: str) -> list[tuple[object, ...]]:
            return database.execute(f"SELECT * FROM {table} WHERE {column} = ?", (value,)).fetchall()

        def enter(table: str, rows: list[tuple[object, ...]]) -> None:
            if rows:
                database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

        models = {}
        for model in set(students.values()):
            submissions = all_of("submitted_assignment", "student_id", model)
            books = [book for row in submissions for book in all_of("submitted_notebook", "assignment_id", str(row[0]))]
            cells = {
                table: [row for book in books for row in all_of(table, "notebook_id", str(book[0]))]
                for table in ("grade", "comment")
            }
            models[model] = submissions, books, cells
        for student, model in students.items():
            submissions, books, cells = models[model]
            new = {row[0]: uuid.uuid4().hex for row in (*submissions, *books)}
            enter("student", [(student, None, None, None, None)])
            enter("submitted_assignment", [(new[row[0]], row[1], student, *row[3:]) for row in submissions])
            enter("submitted_notebook", [(new[row[0]], new[row[1]], *row[2:]) for row in books])
            for table, rows in cells.items():
                enter(table, [(uuid.uuid4().hex, new[row[1]], *row[2:]) for row in rows])
        for model, (submissions, books, cells) in models.items():
            for table, rows in (*cells.items(), ("submitted_notebook", books), ("submitted_assignment", submissions)):
                database.executemany(f"DELETE FROM {table} WHERE id = ?", [(row[0],) for row in rows])
            database.execute("DELETE FROM student WHERE id = ?", (model,))


def canvas_export(course: Course, to: Path, count: int, assignment: str, masters: NotebookNode) -> None:
    """An archive as Canvas makes it of `count` students, each with a notebook of their own, and their roster.

    The notebooks are what students hand in, outputs included: half a megabyte each. Their answers are those of the
    simulated class in the course, in turn.

    Args: a course in which a class was simulated, where the archive goes, its size, the assignment, and a notebook
        whose cells have outputs.
    """
    outputs = {cell["id"]: cell.outputs for cell in masters.cells if cell.cell_type == "code"}
    models = []
    for path in sorted(course.step("submitted", "").glob(f"*/{assignment}/{assignment}.ipynb")):
        nb = json.loads(path.read_text("utf-8"))
        for cell in nb["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = outputs.get(cell["id"], [])
        models.append(json.dumps(nb, indent=1))
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(count):
            content = models[number % len(models)].replace('"cells": [', f'"student": "{number}",\n "cells": [', 1)
            archive.writestr(f"numberstudent_{number}_{count + number}_{assignment}.ipynb", content)
    rows = "".join(f"student-{number:05},Student Number{number:05},{number}\n" for number in range(count))
    course.roster.write_text(f"id,name,lms_id\n{rows}", "utf-8")


def queue(graded: Course, to: Path, assignment: str, count: int) -> Course:
    """A course in which `count` students have handed in a few bytes each, and nothing was graded."""
    course = without_submissions(graded, to)
    for number in range(count):
        path = course.notebook("submitted", assignment, f"student-{number:06}")
        path.parent.mkdir(parents=True)
        path.write_text(str(number), "utf-8")
    return course


def record_as_graded(graded: Course, course: Course, assignment: str, model: str) -> None:
    """Give every submission of a `queue` the record of one that was graded, and a file where its notebook would be.

    The observations are left out: whoever looks for what is done does not read them.
    """
    record = read_record(graded, assignment, model)
    assert record is not None
    for student in submitted_students(course, assignment):
        path = course.notebook("autograded", assignment, student)
        path.parent.mkdir(parents=True)
        path.touch()
        digest = submission_digest(course, assignment, student)
        course.journal(assignment, student).unlink(missing_ok=True)
        with mock.patch("os.fsync"):  # a power cut may take these
            write_record(course, replace(record, student=student, digest=digest, observations={}))
