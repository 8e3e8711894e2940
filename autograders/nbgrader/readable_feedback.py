"""Makes nbgrader's feedback page readable: it says what was not run, drops bare scores and keeps lists readable."""

from __future__ import annotations

import html
from collections.abc import Set
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from ..course import Course
from ..grading.journal import look_up
from ..grading.lateness import extension_of, lateness_of
from ..grading.states import State, state_of
from ..intake.notes import note_in_force
from ..intake.times import due_dates
from ..notebooks import STAMP
from ..plain_text import plain
from ..questions.question import by_test_id
from ..questions.titles import question_titles
from ..release.history import read_history
from ..release.publications import read_published, which_release
from ..results.banner import state_banner
from .safe_page_exporter import FOLD, HEADING, OURS, UNFOLD
from .scores import question_of, scores_of

_NOTE = (
    "*Your answers were put into the notebook as it was released. Cells that only show something were not run while "
    "grading, so they have no output here.*"
)
_STYLE = (
    "summary{display:list-item} td,th{padding:2px 6px;text-align:left;vertical-align:top} "
    "td,th{overflow-wrap:break-word} pre{word-break:normal;overflow-wrap:anywhere} "
    "body a{color:#1a5a96;text-decoration:underline} body div.nbgrader_cell .panel-primary .panel-heading a,"
    "body .panel-primary.nbgrader_cell .panel-heading a{color:#fff} body .highlight .ne{color:#b02a24} "
    "body .highlight .si{color:#8f3e60} body .highlight .se{color:#8a4b12} "
    "img{max-width:100%} div.prompt{display:none} body #notebook-container{width:auto;max-width:60em;margin:0 auto;"
    "padding:0 1em} body{overflow-wrap:anywhere} "
    "div.nbgrader_cell .panel-heading{height:auto;overflow:hidden} .input_area pre,pre{white-space:pre-wrap} "
    "div.output_subarea,div.rendered_html{max-width:100%} details.rest{margin:0.5em 0} "
    "details.rest>summary{color:#555} @media print{details.rest{display:none} div.cell{page-break-inside:auto}}"
)


class ReadableFeedback(NbGraderPreprocessor):
    """For the feedback page only; the graded notebook stays as it is."""

    course_root = Unicode(help="The course's working folder, which knows what was published.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Add the state, the note and the style; drop the bare number above each explanation."""
        course, ids = Course(Path(self.course_root)), resources["nbgrader"]
        banner, waiting = _from_gradebook(course, nb, ids)
        table = _table(nb, waiting)
        for cell in nb.cells:
            cell.metadata.pop(OURS, None)  # a student's cell could have it
            if _is_answer(cell):
                cell.metadata[HEADING] = _heading(cell.metadata["nbgrader"])
            if by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", "")) is not None:
                cell.source = ""
                # The score alone, which nbgrader needed; the explanation below it says the same number with its reason.
                cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
        note = f"{_NOTE}\n\n{self._release(nb, ids['assignment'])}"
        _fold(nb.cells)
        head = f"<h1>{html.escape(ids['notebook'])}</h1>\n<p><strong>{_total(ids, nb, waiting)}</strong></p>"
        text = f"{head}\n\n{banner}\n\n{table}\n\n{note}"
        nb.cells.insert(0, new_markdown_cell(text, metadata={OURS: True}))
        resources["inlining"]["css"] = [*resources["inlining"]["css"], _STYLE]
        return nb, resources

    def _release(self, nb: NotebookNode, assignment: str) -> str:
        stamp = nb.metadata.get(STAMP, {})
        version, tag = stamp.get("submitted_version"), stamp.get("submitted_release")
        course = Course(Path(self.course_root))
        releases = read_history(course).get(assignment, [])
        release = which_release(read_published(course.root), assignment, version, tag, releases)
        return f"<p>Made from release: {html.escape(release)}.</p>"


def _is_answer(cell: NotebookNode) -> bool:
    """Whether a cell is an answer, or the test cell with its verdict."""
    names = cell.metadata.get("nbgrader", {})
    return bool(names.get("solution") or names.get("grade") or names.get("task"))


def _fold(cells: list[NotebookNode]) -> None:
    """Mark the parts of the notebook between the answers, which the page folds."""
    for number, cell in enumerate(cells):
        if not _is_answer(cell):
            cell.metadata[FOLD] = number == 0 or _is_answer(cells[number - 1])
            cell.metadata[UNFOLD] = number == len(cells) - 1 or _is_answer(cells[number + 1])


def _name(grade_id: str) -> str:
    question = by_test_id(grade_id)
    return question.id if question is not None else grade_id


def _heading(names: NotebookNode) -> str:
    """What is above an answer, or above the verdict in a test cell."""
    question = _name(names["grade_id"])
    answers = names.get("solution") or names.get("task")
    return f"{'Your answer' if answers else 'Verdict'}: {question_titles().get(question, question)}"


def _total(ids: Any, nb: NotebookNode, waiting: Set[str]) -> str:
    """The points of the notebook, and how many of them nobody has given or refused yet."""
    graded = [cell.metadata["nbgrader"] for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    open_points = sum(names.get("points") or 0 for names in graded if question_of(names["grade_id"]) in waiting)
    total = f"{ids['score']:g} of {ids['max_score']:g} points"
    if ids["late_penalty"]:
        total += f", {ids['late_penalty']:g} taken off for being late"
    return f"{total} so far; {open_points:g} wait for a person" if open_points else total


def _table(nb: NotebookNode, waiting: Set[str]) -> str:
    """Each question by its name, with its points, what happened, what to look at and a link to the answer."""
    verdicts = nb.metadata.get(STAMP, {}).get("verdicts", {})
    rows = []
    for cell in nb.cells:
        names = cell.metadata.get("nbgrader", {})
        if not names.get("grade"):
            continue
        name = _name(names["grade_id"])
        verdict = verdicts.get(name, {})
        lost = [
            f"{part['name']}: {part['message']}"
            for part in verdict.get("parts", ())
            if part["points"] < part["maximum"]
        ]
        happened = verdict.get("meaning") or "; ".join(lost)
        earned = f"{names.get('score') or 0:g}"
        if question_of(names["grade_id"]) in waiting:
            earned, happened = "–", happened or "waits for a person"
        elif by_test_id(names["grade_id"]) is None:
            happened = "graded by a person"
        title = question_titles().get(name, name)
        points = f"{earned} of {names.get('points') or 0:g}"
        words = html.escape(plain(happened))
        if verdict.get("look_at"):
            words += f"<br><em>Look at: {html.escape(plain(verdict['look_at']))}</em>"
        link = f'<a href="#comment-{html.escape(name)}">{html.escape(title)}</a>'
        rows.append(f'<tr><td>{link}</td><td style="white-space:nowrap">{points}</td><td>{words}</td></tr>')
    heads = "".join(f"<th>{head}</th>" for head in ("question", "points", "what happened"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _from_gradebook(course: Course, nb: NotebookNode, ids: Any) -> tuple[str, set[str]]:
    """The submission's state with its reasons, as the gradebook has it now, and the questions waiting for a person."""
    from nbgrader.api import Gradebook

    stamp, student = nb.metadata.get(STAMP, {}), ids["student"]
    record, note = look_up(course, ids["assignment"], student), note_in_force(course, ids["assignment"], student)
    state, reasons = state_of(stamp.get("verdicts", {}), stamp.get("incidents", ()))
    due = due_dates(course).get(ids["assignment"])
    with Gradebook(ids["db_url"]) as gradebook:
        submission = scores_of(gradebook, ids["assignment"], student)[student]
    late = lateness_of(submission, due, note.late if note is not None else "")
    ids["score"], ids["late_penalty"] = submission.score - late.points, late.points
    if late.reason and state == State.GRADED:
        state = State.LATE
    notes = record.notes if record is not None else stamp.get("notes", [])
    # The first of them fit on the page, so what concerns the score comes before what was repaired.
    told = [*map(str, reasons), *(str(each) for each in (late.reason, extension_of(submission, due)) if each), *notes]
    waiting = {question.question for question in submission.questions if question.needs_manual_grade}
    return state_banner(state, told), waiting
