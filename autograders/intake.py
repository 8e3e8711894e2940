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
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not a notebook's JSON ({type(error).__name__}: {str(error)[:80]})") from None
    if not isinstance(nb, dict) or not isinstance(nb.get("cells"), list):
        raise Unreadable("not a notebook: it has no list of cells")
    if nb.get("nbformat") != 4 or not isinstance(nb.get("nbformat_minor"), int):
        raise Unreadable(f"notebook format {nb.get('nbformat')!r}.{nb.get('nbformat_minor')!r}, 4 is expected")
    if not isinstance(nb.get("metadata"), dict) or not isinstance(nb["metadata"].get("lecture", {}), dict):
        raise Unreadable("its metadata are not a notebook's")
    for number, cell in enumerate(nb["cells"]):
        if not _is_cell(cell):
            raise Unreadable(f"cell {number} is not a cell")
        if any("\ud800" <= character <= "\udfff" for character in "".join(cell["source"])):
            raise Unreadable(
                f"cell {number} holds half a character (a lone surrogate): it was saved by a broken program"
            )
    _refuse_duplicates(nb["cells"])
    return nb


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return False
    meta, source = cell.get("metadata"), cell.get("source")
    if not isinstance(meta, dict) or not isinstance(meta.get("nbgrader", {}), dict):
        return False
    if not isinstance(meta.get("nbgrader", {}).get("grade_id", ""), str):
        return False
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


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
    found: str | None = cell["metadata"].get("nbgrader", {}).get("grade_id")
    return found
