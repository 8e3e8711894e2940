"""Late penalties as nbgrader has them, on a time of handing in that was checked."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import Unicode

from ..course import Course
from ..grading.states import MARKED_SECONDS
from ..intake.notes import note_in_force
from ..intake.times import due_dates, handed_in
from ..notebooks import STAMP


class LatePenalties(AssignLatePenalties):
    """nbgrader's late penalties; the due date comes from `assignments.csv` where it has one."""

    course_root = Unicode(help="The course's working folder, which holds assignments.csv.").tag(config=True)

    def init_plugin(self) -> None:
        """Make nbgrader's plugin, with the penalty that assignments.csv names for this assignment."""
        super().init_plugin()
        if self._penalty is not None and hasattr(self.plugin_inst, "penalty_method"):
            self.plugin_inst.penalty_method = self._penalty

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Enter the times, let nbgrader give the penalty, and note in the notebook a time that was not believed."""
        names = resources["nbgrader"]
        assignment, student = names["assignment"], names["student"]
        course = Course(Path(self.course_root))
        due = due_dates(course).get(assignment)
        self._penalty = due.penalty if due is not None else None
        arrival = handed_in(course.step("submitted", student, assignment))
        note = note_in_force(course, assignment, student)
        with Gradebook(names["db_url"]) as gradebook:
            if due is not None:
                gradebook.find_assignment(assignment).duedate = due.date
            submission = gradebook.find_submission(assignment, student)
            submission.timestamp = _effective_time(arrival.time, submission, note.late if note is not None else "")
            # nbgrader's step opens the gradebook anew, and computes from what it finds there.
            gradebook.db.commit()
        nb, resources = super().preprocess(nb, resources)
        with Gradebook(names["db_url"]) as gradebook:
            submission = gradebook.find_submission(assignment, student)
            has_due = submission.duedate is not None
        if arrival.note and has_due:
            stamp = nb.metadata.setdefault(STAMP, {})
            stamp["notes"] = [*stamp.get("notes", []), arrival.note]
        return nb, resources


def _effective_time(time: datetime | None, submission: Any, marked: str) -> datetime | None:
    """The time of handing in for nbgrader: just after the due date if an LMS marks the file late without a late time.

    An extension that the student has in nbgrader still counts.
    """
    due = submission.assignment.duedate
    if not marked or due is None or (time is not None and time > due):
        return time
    return due + timedelta(seconds=MARKED_SECONDS)
