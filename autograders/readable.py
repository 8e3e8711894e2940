"""Makes nbgrader's feedback page readable: what was not run is said, bare scores go, lists keep their form."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from .notebooks import STAMP
from .published import which_release
from .questions import by_test_id
from .states import GRADED, LATE, MEANINGS, lateness, state_of

_NOTE = (
    "*Your answers were put into the notebook as it was released. Cells that only show something were not run while "
    "grading, so they have no output here. Questions graded by hand show 0 until that is done.*"
)
_STYLE = "summary{display:list-item} td,th{padding:2px 10px} pre{word-break:normal;overflow-wrap:anywhere}"


class ReadableFeedback(NbGraderPreprocessor):
    """For the feedback page only; the graded notebook stays as it is."""

    course_root = Unicode(help="The course's working folder, which knows what was published.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Add the state, the note and the style; drop the bare number above each explanation."""
        for cell in nb.cells:
            if by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", "")) is not None:
                cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
        note = f"{_NOTE}\n\n{self._release(nb, resources['nbgrader']['assignment'])}"
        nb.cells.insert(0, new_markdown_cell(f"{_banner(nb, resources['nbgrader'])}\n\n{note}"))
        resources["inlining"]["css"] = [*resources["inlining"]["css"], _STYLE]
        return nb, resources

    def _release(self, nb: NotebookNode, assignment: str) -> str:
        stamp = nb.metadata.get(STAMP, {})
        version, tag = stamp.get("submitted_version"), stamp.get("submitted_release")
        found = which_release(Path(self.course_root), assignment, version, tag)
        return f"<p>Made from release: {html.escape(found)}.</p>"


def _banner(nb: NotebookNode, ids: Any) -> str:
    """The submission's state with its reasons, as the gradebook has it when the page is made."""
    from nbgrader.api import Gradebook

    stamp = nb.metadata.get(STAMP, {})
    state, reason = state_of(stamp.get("verdicts", {}), stamp.get("incidents", ()))
    with Gradebook(ids["db_url"]) as gradebook:
        submission = gradebook.find_submission(ids["assignment"], ids["student"])
        late = lateness(submission.total_seconds_late, submission.late_submission_penalty)
    if late and state == GRADED:
        state = LATE
    return state_banner(state, [*reason.split("; "), *stamp.get("notes", []), late])


def state_banner(state: str, reasons: Sequence[str]) -> str:
    """A state, what it means and its reasons as a piece of HTML; nothing in a reason is read as HTML or Markdown."""
    told = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons if reason)
    style = "border-left:4px solid #0072B2;padding:0.3em 0.8em;margin-bottom:1em"
    words = f"<strong>{html.escape(state)}</strong>: {html.escape(MEANINGS.get(state, 'see the reason'))}"
    return f'<div style="{style}">{words}{f"<ul>{told}</ul>" if told else ""}</div>'
