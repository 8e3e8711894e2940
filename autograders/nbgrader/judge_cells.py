"""Turns what a notebook's probes published into points and an explanation, in the form that nbgrader scores."""

from __future__ import annotations

import contextlib
import html
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from lecture_lib.notebook.process_state import told_left

from ..notebooks import STAMP
from ..probes import MIME
from ..questions.hidden_cases import DrawnCases
from ..questions.question import NOT_OBSERVED, by_test_id, inputs_digest
from ..questions.verdict import Verdict
from ..reasons import Kind, Reason


class JudgeCells(NbGraderPreprocessor):
    """Judges every test cell after the notebook has run and writes the cell's outputs anew.

    nbgrader reads a score from a cell's outputs in ways that a student's code could use: an error or a line on stderr
    is zero, anything unreadable is full marks. So nothing that the student's process wrote is left for it to read.
    """

    course_root = Unicode(help="The course's working folder, which holds the secret.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Judge the autograded questions of one notebook."""
        drawn = DrawnCases(Path(self.course_root), resources["nbgrader"]["assignment"], nb)
        stamp = nb.metadata.setdefault(STAMP, {})
        stamp["version"] = drawn.version
        stamp["pool"] = drawn.pool
        stamp["cell_seconds"] = _cell_seconds(nb)
        stamp["verdicts"], stamp["observations"], stamp["inputs"] = {}, {}, {}
        for cell in nb.cells:
            question = by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if question is None or cell.cell_type != "code":
                continue
            published = [output.data[MIME] for output in cell.outputs if MIME in output.get("data", {})]
            if published:
                verdict = question.judge(drawn.cases(question), published)
            else:
                verdict = question.zero(_why_nothing(cell, _incident(stamp, question.id)))
            stamp["verdicts"][question.id] = verdict.as_record()
            stamp["observations"][question.id] = published
            stamp["inputs"][question.id] = inputs_digest(drawn.inputs(question))
            cell.outputs = [*judged_outputs(verdict), *_visible_check(cell)]
        return nb, resources


def _incident(stamp: dict[str, Any], question: str) -> Reason | None:
    """Why a question's cells were stopped, or None when they were not."""
    incidents = map(Reason.from_record, stamp.get("incidents", []))
    return next((incident for incident in incidents if incident.question == question), None)


def _why_nothing(cell: NotebookNode, incident: Reason | None) -> Reason:
    """Why a test cell published nothing, from what it left behind."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    if incident or not errors:
        return incident or NOT_OBSERVED
    name = errors[0].ename
    text = f"the test cell stopped with {name}: {errors[0].evalue[:200]}"
    return Reason(Kind.TEST_CELL_STOPPED, text, name if name.isidentifier() else "an error")


def _cell_seconds(nb: NotebookNode) -> dict[str, float]:
    """How long each cell ran, by nbgrader id or cell id, from the kernel's own messages."""
    seconds = {}
    for cell in nb.cells:
        times = cell.metadata.get("execution", {})
        began, ended = (times.get(name) for name in ("iopub.execute_input", "shell.execute_reply"))
        if isinstance(began, str) and isinstance(ended, str):
            name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell["id"]
            with contextlib.suppress(ValueError, TypeError):  # the kernel's own words, which a student's code can forge
                duration = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
                seconds[name] = round(duration.total_seconds(), 2)
    return seconds


def _visible_check(cell: NotebookNode) -> list[NotebookNode]:
    """What the visible check showed: the cell's displays, without the observation and what could be a score."""
    return [
        output for output in cell.outputs if output.output_type == "display_data" and MIME not in output.get("data", {})
    ]


def judged_outputs(verdict: Verdict) -> list[NotebookNode]:
    """The score as nbgrader reads it, and beside it the explanation for people."""
    # nbgrader gives full marks for a negative score or for what `float` cannot read, and stops above the maximum.
    points = min(max(float(verdict.points), 0.0), verdict.maximum)
    text = explain(verdict)
    style = "border-left:4px solid #0072B2;padding:0.5em 0.8em;white-space:pre-wrap;word-break:normal"
    page = f'<pre style="{style}">{html.escape(text)}</pre>'
    # Not by new_output, which validates each: the notebook is validated as a whole when it is written.
    score = {"output_type": "execute_result", "data": {"text/plain": repr(points)}, "execution_count": None}
    explanation = {"output_type": "display_data", "data": {"text/html": page, "text/plain": text}}
    return [from_dict({**output, "metadata": {}}) for output in (score, explanation)]


def explain(verdict: Verdict) -> str:
    """A verdict in words: the points of each part, what was seen, what to look at; no hidden input or value."""
    rows = [f"{verdict.question}: {verdict.points:g} of {verdict.maximum:g} points"]
    rows += [f"  {part.name}: {part.points:g} of {part.maximum:g} – {part.message}" for part in verdict.parts]
    if verdict.meaning:
        rows += [f"  what happened: {verdict.meaning}", f"  look at: {verdict.look_at}"]
    if verdict.left:
        rows.append(f"  {told_left(verdict.left)}")
    return "\n".join(rows)
