"""Brings the gradebook's cells in line with a new release. nbgrader refuses to, once something was handed in."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_locked, is_solution, is_task

from ..course import Course
from ..tables import read_table, write_table
from .database import open_gradebook

COLUMNS = ("student", "assignment", "cell", "points", "of", "comment")


def replace_cells(course: Course, assignment: str, nb: NotebookNode, removed_scores: str) -> None:
    """Add and remove cells of an assignment so that they are those of `nb`, a master, in every submission too.

    What a person gave to a cell that goes is first added to the table `removed_scores` in the course's folder. All is
    one transaction: killed in between, the same call does the whole again. nbgrader enters points and texts afterwards.
    """
    from nbgrader.api import MissingEntry

    if not course.database.is_file():
        return
    with open_gradebook(course) as gradebook:
        try:
            notebook = gradebook.find_notebook(assignment, assignment)
        except MissingEntry:
            return
        if not notebook.submissions:
            return  # nbgrader makes the notebook anew then
        wanted = _cells_of(nb)
        gone = [cell for kind in wanted for cell in getattr(notebook, kind) if cell.name not in wanted[kind]]
        _keep_scores(course, assignment, gradebook, gone, removed_scores)
        for cell in gone:
            _remove(gradebook, cell)
        for kind, cells in wanted.items():
            existing = {cell.name for cell in getattr(notebook, kind)}
            for name in (name for name in cells if name not in existing):
                _add(gradebook, notebook, kind, name, cells[name])
        gradebook.db.commit()


def _cells_of(nb: NotebookNode) -> dict[str, dict[str, dict[str, Any]]]:
    """Kind of cell -> name -> its fields, as nbgrader's SaveCells divides them."""
    cells: dict[str, dict[str, dict[str, Any]]] = {
        kind: {} for kind in ("grade_cells", "solution_cells", "task_cells", "source_cells")
    }
    for cell in nb.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        kinds = {
            "grade_cells": is_grade(cell),
            "solution_cells": is_solution(cell),
            "task_cells": is_task(cell),
            "source_cells": is_grade(cell) or is_solution(cell) or is_locked(cell) or is_task(cell),
        }
        for kind in (kind for kind, holds in kinds.items() if holds):
            fields: dict[str, Any] = {} if kind == "solution_cells" else {"cell_type": cell.cell_type}
            if kind in ("grade_cells", "task_cells"):
                fields["max_score"] = float(cell.metadata.nbgrader["points"])
            cells[kind][name] = fields
    return cells


def _keep_scores(course: Course, assignment: str, gradebook: Any, gone: list[Any], table: str) -> None:
    from nbgrader.api import Comment, Grade

    path = course.root / table
    kept = [list(line.values()) for line in read_table(path)] if path.is_file() else []
    for cell in gone:
        for grade in gradebook.db.query(Grade).filter(Grade.cell_id == cell.id):
            if grade.manual_score is not None:
                worth = f"{grade.manual_score:g}", f"{cell.max_score:g}"
                kept.append([grade.notebook.student.id, assignment, cell.name, *worth, ""])
        for comment in gradebook.db.query(Comment).filter(Comment.cell_id == cell.id):
            if comment.manual_comment:
                kept.append([comment.notebook.student.id, assignment, cell.name, "", "", comment.manual_comment])
    # Each once: a call that was killed after this is made again.
    lines = sorted({tuple(line) for line in kept})
    if lines:
        write_table(path, [COLUMNS, *lines])


def _remove(gradebook: Any, cell: Any) -> None:
    from nbgrader.api import Comment, Grade

    for kind in (Grade, Comment):
        for entry in gradebook.db.query(kind).filter(kind.cell_id == cell.id):
            gradebook.db.delete(entry)
    gradebook.db.delete(cell)


def _add(gradebook: Any, notebook: Any, kind: str, name: str, fields: dict[str, Any]) -> None:
    from nbgrader import api

    made = {
        "grade_cells": (api.GradeCell, [api.Grade]),
        "solution_cells": (api.SolutionCell, [api.Comment]),
        "task_cells": (api.TaskCell, [api.Grade, api.Comment]),
        "source_cells": (api.SourceCell, []),
    }
    cell_class, entries = made[kind]
    cell = cell_class(name=name, notebook=notebook, **fields)
    gradebook.db.add(cell)
    gradebook.db.flush()  # gives the cell its id
    for submission in notebook.submissions:
        for entry in entries:
            gradebook.db.add(entry(cell_id=cell.id, notebook=submission))
