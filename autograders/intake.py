"""Whether a submitted file can be graded, and if not, why: in words that an instructor can pass on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from .course import Course


class Unreadable(ValueError):  # noqa: N818 - a state of a submission, not a fault of ours
    """A submission that cannot be graded; the message is the reason."""


def submitted_students(course: Course, assignment: str) -> list[str]:
    """The students who have a folder for this assignment, in order."""
    return sorted(path.parent.name for path in course.step("submitted", "").glob(f"*/{assignment}") if path.is_dir())


def read_submission(course: Course, assignment: str, student: str) -> tuple[str, dict[str, Any]]:
    """The SHA-256 of a submitted notebook's file and its content. Raises Unreadable with the reason."""
    path = course.notebook("submitted", assignment, student)
    if not path.is_file():
        found = sorted(item.name for item in path.parent.iterdir()) if path.parent.is_dir() else []
        raise Unreadable(f"no notebook {path.name}" + (f"; the folder holds {', '.join(found)}" if found else ""))
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), check_notebook(content)


def file_digest(path: Path) -> str | None:
    """The SHA-256 of a file, or None when there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def check_notebook(content: bytes) -> dict[str, Any]:
    """The notebook in `content`. Raises Unreadable when it is not one, or when an answer's cell is there twice."""
    try:
        nb = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 text (byte {error.start}): it was saved by something else than Jupyter") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON (line {error.lineno}: {error.msg}): cut off, or not a notebook") from None
    if not isinstance(nb, dict) or not isinstance(nb.get("cells"), list):
        raise Unreadable("not a notebook: it has no list of cells")
    if nb.get("nbformat") != 4:
        raise Unreadable(f"notebook format {nb.get('nbformat')!r}, 4 is expected")
    for number, cell in enumerate(nb["cells"]):
        if not (
            isinstance(cell, dict)
            and isinstance(cell.get("metadata"), dict)
            and cell.get("cell_type") in ("code", "markdown", "raw")
            and isinstance(cell.get("source"), str | list)
        ):
            raise Unreadable(f"cell {number} is not a cell")
    _refuse_duplicates(nb["cells"])
    return nb


def _refuse_duplicates(cells: list[dict[str, Any]]) -> None:
    """An answer that is there twice is a question that only a person can settle: which one counts?"""
    grade_ids = [_grade_id(cell) for cell in cells]
    for grade_id, count in Counter(filter(None, grade_ids)).items():
        if count > 1:
            raise Unreadable(f"{count} cells have the id {grade_id} (a copied cell?): which one counts?")
    graded = {cell.get("id") for cell, grade_id in zip(cells, grade_ids, strict=True) if grade_id and cell.get("id")}
    for cell_id, count in Counter(cell.get("id") for cell in cells if isinstance(cell.get("id"), str)).items():
        if count > 1 and cell_id in graded:
            raise Unreadable(f"{count} cells have the cell id {cell_id} (a copied cell?): which one counts?")


def _grade_id(cell: dict[str, Any]) -> str | None:
    meta = cell["metadata"].get("nbgrader")
    found = meta.get("grade_id") if isinstance(meta, dict) else None
    return found if isinstance(found, str) else None
