"""Whether a course is in order; what is not is refused, with the remedy, before anything is written."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .. import notebooks
from ..course import LOCK_SECONDS, Course, CourseError
from ..nbgrader.configuration import configuration
from ..nbgrader.gradebook_lock import refuse_lock
from ..nbgrader.lost_metadata import refuse_lost_metadata
from ..notebooks import STAMP
from ..questions.question import QUESTIONS, by_test_id
from ..setting import NOTEBOOKS

_MARKS = re.compile(r"### (BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
_PROBE = re.compile(r"""\bprobe\(\s*["']([^"']+)["']""")


def check_course(course: Course, assignments: Sequence[str]) -> None:
    """Refuse to grade with a course that is not in order. Reads only.

    Raises CourseError with the remedy: settings that lose scores, a release that is not of its source, a question
    without a judge, a database of another course.
    """
    refuse_lost_metadata(configuration(course))
    problems = []
    for name in assignments:
        course.require_release(name)
        source = notebooks.read(course.notebook("source", name))
        problems += [*check_master(name, source), *_stale(course, name, source)]
    if problems:
        raise CourseError("\n".join(problems))
    refuse_other_database(course, assignments, {name: _worth(course, name) for name in assignments})


def check_master(assignment: str, nb: NotebookNode) -> list[str]:
    """What is wrong with a master notebook: each entry names the cell and the remedy."""
    problems = []
    graded = 0
    for cell in nb.cells:
        meta = cell.metadata.get("nbgrader", {})
        grade_id = meta.get("grade_id", "")
        where = f"{assignment}, cell {grade_id or cell.get('id', '')}"
        problems += [f"{where}: {problem}" for problem in _unpaired(cell.source)]
        problems += [
            f"{where}: it probes {question}, which has no judge. Add one to autograders/questions/question.py."
            for question in _PROBE.findall(cell.source)
            if question not in QUESTIONS
        ]
        if not meta.get("grade"):
            continue
        graded += 1
        points = meta.get("points")
        if not isinstance(points, int | float) or not 0 < points < float("inf"):
            problems.append(f"{where}: {points!r} points. Give it a positive number.")
        if cell.cell_type == "code" and not meta.get("solution"):
            problems += [f"{where}: {problem}" for problem in _test_cell(grade_id, cell.source, points)]
    if not graded:
        problems.append(f"{assignment}: no cell has points, so nothing can be earned. Mark a cell as graded.")
    return problems


def _unpaired(source: str) -> list[str]:
    """Marked regions that are not closed, or closed before they begin."""
    open_region: str | None = None
    for kind, region in _MARKS.findall(source):
        if (kind == "BEGIN") == (open_region is not None) or (kind == "END" and region != open_region):
            return [f"BEGIN {region} and END {region} do not pair. Close the region."]
        open_region = region if kind == "BEGIN" else None
    return [f"BEGIN {open_region} and END {open_region} do not pair. Close the region."] if open_region else []


def _test_cell(grade_id: str, source: str, points: Any) -> list[str]:
    question = by_test_id(grade_id)
    if question is None:
        return ["no judge. Add it to autograders/questions/question.py, or rename the cell."]
    if question.id not in _PROBE.findall(source):
        return [f"it does not call probe({question.id!r}, …), so nothing would be observed. Add the call."]
    if points != question.points:
        return [f"{points} points, its judge gives {question.points:g}. Make them equal."]
    answers = question.answers()
    right = sum(answer.name.startswith("right") for answer in answers)
    if right >= 3 and len(answers) - right >= 6:
        return []
    return [
        f"{right} right and {len(answers) - right} wrong answers, at least 3 and 6 are needed in "
        f"autograders/questions/answers/{question.id}.md."
    ]


def _stale(course: Course, assignment: str, source: NotebookNode) -> list[str]:
    path = course.notebook("release", assignment)
    if not path.exists():
        return [f"{assignment}: {path} is missing. Run `autograde release` again."]
    stamped = notebooks.read(path).metadata.get(STAMP, {}).get("version")
    version = notebooks.assignment_version(source)
    if stamped == version:
        return []
    return [
        f"{assignment}: what was released is version {stamped or 'unknown'}, its source is version {version}. "
        "Run `autograde release` again; students keep the notebooks that they have."
    ]


def _worth(course: Course, assignment: str) -> dict[str, float]:
    """The graded cells of the released notebook and their points."""
    metas = (cell.metadata.get("nbgrader", {}) for cell in notebooks.read(course.notebook("release", assignment)).cells)
    return {meta["grade_id"]: float(meta["points"]) for meta in metas if meta.get("grade")}


def refuse_other_database(
    course: Course, assignments: Sequence[str], worth: dict[str, dict[str, float]] | None = None
) -> None:
    """Raise CourseError when `gradebook.db` is of another course: it knows none of ours, or other questions in them.

    Args: the course, its assignments, and (once released) the graded cells of each with their points.
    """
    path = course.database
    if not path.is_file():
        return
    remedy = "Put this course's database back, or use another folder (--course DIR)."
    assignments_in_database = _known_to(path)
    if assignments_in_database is None:
        raise CourseError(f"{path} cannot be read as nbgrader's database. {remedy}")
    ours = set(assignments) | {path.name for path in course.step("source", "").glob("*")}
    unknown = sorted(set(assignments_in_database) - ours - {path.stem for path in NOTEBOOKS.glob("[0-9]*.py")})
    if assignments_in_database and unknown and not ours & set(assignments_in_database):
        raise CourseError(f"{path} is of another course: it holds {', '.join(unknown)}. {remedy}")
    for assignment, cells in (worth or {}).items():
        if assignments_in_database.get(assignment) != cells:
            cells_in_database = assignments_in_database.get(assignment)
            difference = (
                "no such assignment"
                if cells_in_database is None
                else f"other questions ({', '.join(sorted(cells_in_database)) or 'none'})"
            )
            raise CourseError(
                f"{path} is of another course or an older release: it has {difference} for {assignment}. "
                f"Run `autograde release` again if it is of this course. {remedy}"
            )


def _known_to(path: Path) -> dict[str, dict[str, float]] | None:
    """The assignments of a database and their graded cells' points, read without changing it; None if it is none."""
    # What a killed writer had not finished is in a journal, and SQLite must be allowed to write to take it back.
    mode = "rw" if path.with_name(f"{path.name}-journal").exists() else "ro"
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=LOCK_SECONDS)
        try:
            cells_of: dict[str, dict[str, float]] = {
                name: {} for (name,) in connection.execute("SELECT name FROM assignment")
            }
            rows = connection.execute(
                "SELECT a.name, b.name, g.max_score FROM grade_cells g JOIN base_cell b ON g.id = b.id "
                "JOIN notebook n ON b.notebook_id = n.id JOIN assignment a ON n.assignment_id = a.id"
            )
            for assignment, cell, points in rows:
                cells_of[assignment][cell] = points
            return cells_of
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        refuse_lock(error, path)
        return None
