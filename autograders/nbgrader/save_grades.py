"""Writes a notebook's scores into the gradebook: all of them or none, and a person's work stays."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task
from traitlets import Unicode

from ..course import Course
from ..grading.journal import Record, look_up
from ..notebooks import STAMP
from ..questions.hidden_cases import solutions
from ..release.history import added_since, read_history, told_since
from .scores import question_of


class SaveGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades in one transaction, so that the gradebook never holds half of a submission's scores.

    A score that a person gave stands. It waits for that person again only when the answer, or the automatic score
    beside it, is another than the one it was given to; then a note says so. A question that was not in the release
    that the notebook was made from waits for a person too: nobody could answer it.
    """

    course_root = Unicode(help="The course's working folder, which holds the journal.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Save the scores of one notebook."""
        ids = resources["nbgrader"]
        stamp = nb.metadata.setdefault(STAMP, {})
        stamp["answers"] = answer_digests(nb)
        course = Course(Path(self.course_root))
        record = look_up(course, ids["assignment"], ids["student"])
        not_asked = _note_releases(course, ids["assignment"], nb)
        with Gradebook(ids["db_url"]) as gradebook:
            place = ids["notebook"], ids["assignment"], ids["student"]
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                if is_grade(cell):
                    note = self._save(gradebook.find_grade(name, *place), cell, stamp["answers"], record)
                    if note is not None:
                        stamp.setdefault("notes", []).append(note)
                    if question_of(name) in not_asked:
                        grade = gradebook.find_grade(name, *place)
                        grade.needs_manual_grade = grade.needs_manual_grade or grade.manual_score is None
                if is_solution(cell) or is_task(cell):
                    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                    comment = gradebook.find_comment(name, *place)
                    # As nbgrader does: the only automatic comment, for an answer that was left as released.
                    comment.auto_comment = "No response." if unchanged and not is_task(cell) else None
            gradebook.db.commit()
        return nb, resources

    def _save(self, grade: Any, cell: NotebookNode, answers: dict[str, str], record: Record | None) -> str | None:
        """Enter one score; returns the note when a person's score was given to something else."""
        grade.auto_score, _ = determine_grade(cell, self.log)
        if grade.manual_score is None:
            grade.needs_manual_grade = grade.auto_score is None
            return None
        name = question_of(str(cell.metadata.nbgrader["grade_id"]))
        # Compared with the journal, not with the gradebook: that may be of a run that was killed right here.
        if record is not None and name in record.answers and record.answers[name] == answers.get(name):
            earlier = record.questions.get(name)
            if earlier is None or earlier["points"] == grade.auto_score:
                return None
        grade.needs_manual_grade = True
        return f"the manual score {grade.manual_score:g} of {name} was given to an earlier answer: look at it again"


def _note_releases(course: Course, assignment: str, nb: NotebookNode) -> list[str]:
    """Note what has changed since the release that a notebook was made from; returns what it could not answer."""
    releases, stamp = read_history(course).get(assignment, []), nb.metadata[STAMP]
    version = stamp.get("submitted_version")
    notes = stamp.setdefault("notes", [])
    if (changed := told_since(releases, version)) is not None:
        notes.append(changed)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in nb.cells}
    not_asked = [
        name
        for name in added_since(releases, version)
        if name in cells and cells[name].metadata.nbgrader.get("checksum") == compute_checksum(cells[name])
    ]
    if not_asked:
        notes.append(f"not in the release that it was made from: {', '.join(not_asked)}; a person decides about that")
    return not_asked


def answer_digests(nb: NotebookNode) -> dict[str, str]:
    """A digest of every answer, by the id of its cell."""
    return {name: hashlib.sha256(source.encode()).hexdigest()[:16] for name, source in solutions(nb).items()}
