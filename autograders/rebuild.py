"""What is graded is the instructor's notebook with the student's answers put in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from . import notebooks
from .drawn import solutions
from .notebooks import STAMP


class RebuildFromMaster(NbGraderPreprocessor):
    """Replaces the submission by the released notebook with the submission's answers.

    A deleted, edited or retyped test cell changes nothing that way. The student's own code cells keep their place: an
    answer may need a helper or an import that stands there.
    """

    course_root = Unicode(help="The course's working folder, which holds the released notebooks.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Rebuild one notebook."""
        assignment = resources["nbgrader"]["assignment"]
        release = notebooks.read(Path(self.course_root) / "release" / assignment / f"{assignment}.ipynb")
        return rebuild(nb, release), resources


def rebuild(submitted: NotebookNode, release: NotebookNode) -> NotebookNode:
    """The released notebook with the submission's answers and own code cells; notes on what was repaired."""
    answers, wanted = solutions(submitted), solutions(release)
    notes = [f"the answer cell {grade_id} is missing" for grade_id in wanted if grade_id not in answers]
    extras = _extra_cells(submitted, release)
    cells = list(extras.pop(None, []))
    for cell in release.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in wanted and grade_id in answers:
            cell.source = answers[grade_id]
        cells.append(cell)
        cells += extras.pop(cell["id"], [])
    stamp = submitted.metadata.get(STAMP, {})
    released = release.metadata.get(STAMP, {}).get("version")
    if stamp.get("version") != released:
        notes.append(f"made from release {stamp.get('version', 'unknown')}, graded as {released}")
    release.cells = cells
    release.metadata[STAMP] = {"notes": notes, "submitted_version": stamp.get("version")}
    return release


def _extra_cells(submitted: NotebookNode, release: NotebookNode) -> dict[str | None, list[NotebookNode]]:
    """The student's own code cells, keyed by the id of the released cell that they stand behind (None: at the top).

    A released code cell that the student changed counts as one of them, behind the original; cells that only show
    something are left as they were released.
    """
    by_id = {cell["id"]: cell for cell in release.cells}
    by_source = {cell.source: cell["id"] for cell in release.cells}
    extras: dict[str | None, list[NotebookNode]] = {}
    behind: str | None = None
    for cell in submitted.cells:
        graded = cell.metadata.get("nbgrader", {}).get("grade_id")
        known = graded if graded in by_id else by_source.get(cell.source) or cell.get("id")
        if known in by_id:
            behind = known
            original = by_id[known]
            unchanged = original.source == cell.source
            if graded or unchanged or cell.cell_type != "code" or "demo" in original.metadata.get("tags", []):
                continue
        if cell.cell_type == "code" and cell.source.strip():
            extra = notebooks.code_cell(cell.source, f"extra-{sum(map(len, extras.values()))}")
            extras.setdefault(behind, []).append(extra)
    return extras
