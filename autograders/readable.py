"""Makes nbgrader's feedback page readable: what was not run is said, bare scores go, lists keep their form."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor

from .late import lateness
from .notebooks import STAMP
from .questions import by_test_id

_NOTE = (
    "*Your answers were put into the notebook as it was released. Cells that only show something were not run while "
    "grading, so they have no output here. Questions graded by hand show 0 until that is done.*"
)
_STYLE = "summary{display:list-item} td,th{padding:2px 10px} pre{word-break:normal;overflow-wrap:anywhere}"


class ReadableFeedback(NbGraderPreprocessor):
    """For the feedback page only; the graded notebook stays as it is."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Add the note and the style; drop the bare number above each explanation."""
        for cell in nb.cells:
            if by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", "")) is not None:
                cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
        stamp = nb.metadata.get(STAMP, {})
        said = [text for text in (lateness(stamp.get("late", {})), *stamp.get("notes", [])) if text]
        # As code, so that a name from a submission stays a name.
        listed = "".join(f"\n- `{text.replace('`', ' ')}`" for text in said)
        nb.cells.insert(0, new_markdown_cell(_NOTE + (f"\n{listed}" if said else "")))
        resources["inlining"]["css"] = [*resources["inlining"]["css"], _STYLE]
        return nb, resources
