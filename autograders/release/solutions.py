"""The notebooks with their solutions, for students, once nobody can hand in any more."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .. import notebooks
from ..course import Course, ReleaseError
from ..intake.times import due_dates
from ..questions.question import QUESTIONS
from ..questions.seeds import read_secret
from .archive import write_archive


def write_solutions(
    course: Course, assignments: Sequence[str], *, early: bool = False, now: datetime | None = None
) -> Path:
    """Write released notebooks with each question's solution folded under it, as a folder and as one zip file.

    Args:
        course: where the assignments were released.
        assignments: their names.
        early: also before the last due date.
        now: the time, in UTC without a zone; default: the clock's.

    Returns:
        The folder; the zip file lies beside it.

    Raises:
        ReleaseError: an assignment has no due date, or somebody can still hand it in, and it is not `early`.

    """
    now = now or datetime.now(UTC).replace(tzinfo=None)
    for name in assignments:
        course.require_release(name)
        if not early:
            _require_over(course, name, now)
    made = {name: with_solutions(course, name) for name in assignments}
    folder = course.root / "solutions"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, nb in made.items():
        nbformat.write(nb, folder / f"{name}-solutions.ipynb")
    write_archive(folder, folder.with_suffix(".zip"))
    return folder


def _require_over(course: Course, name: str, now: datetime) -> None:
    """Raise ReleaseError unless the last due date of an assignment, with all extensions, has passed."""
    last = last_due(course, name)
    if last is None:
        raise ReleaseError(
            f"{name} has no due date, so somebody may still be working on it. "
            "Give it in assignments.csv, or pass --early."
        )
    if now <= last:
        raise ReleaseError(
            f"{name} can be handed in until {last:%Y-%m-%d %H:%M} UTC, extensions included; nothing was written. "
            "Wait until then, or pass --early."
        )


def last_due(course: Course, name: str) -> datetime | None:
    """When the last student's time for an assignment ends, in UTC without a zone; None without a due date."""
    from nbgrader.api import Gradebook, MissingEntry

    due = due_dates(course).get(name)
    date = due.date if due is not None else None
    extensions = []
    if course.database.exists():
        with Gradebook(course.gradebook) as gradebook:
            try:
                date = date or gradebook.find_assignment(name).duedate
                extensions = [
                    submission.extension
                    for submission in gradebook.assignment_submissions(name)
                    if submission.extension
                ]
            except MissingEntry:
                pass
    return date + max(extensions) if date is not None and extensions else date


def with_solutions(course: Course, name: str) -> NotebookNode:
    """The notebook as students got it, with a folded cell under each question, and nothing that could be graded."""
    nb = notebooks.read(course.notebook("release", name))
    source = notebooks.read(course.notebook("source", name))
    solved = {
        cell.metadata.nbgrader.grade_id: cell
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for question in (QUESTIONS[grade_id] for grade_id in solved if grade_id in QUESTIONS):
        if variant := question.of_course(read_secret(course.secret)).variant:
            solved[question.id].source = variant.solution
    ids = [cell.metadata.pop("nbgrader", {}).get("grade_id") for cell in nb.cells]
    # Below the visible check, where a question has one.
    below = {f"{name}-test" if f"{name}-test" in ids else name: cell for name, cell in solved.items()}
    pairs = zip(ids, nb.cells, strict=True)
    nb.cells = [each for name, cell in pairs for each in ([cell, _folded(below[name])] if name in below else [cell])]
    nb.metadata.pop("lecture", None)  # it is no submission
    return nb


def _folded(cell: NotebookNode) -> NotebookNode:
    """A solution as a cell that opens on a click."""
    name = cell.metadata.nbgrader.grade_id
    text = notebooks.without_markers(cell.source)
    solution = f"```python\n{text}\n```" if cell.cell_type == "code" else text
    title = f"A solution of {name}" if cell.cell_type == "code" else f"An answer to {name}"
    folded = nbformat.v4.new_markdown_cell(f"<details><summary>{title}</summary>\n\n{solution}\n\n</details>")
    folded.id = f"solution-{name}"
    return folded
