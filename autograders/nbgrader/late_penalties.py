"""Late penalties by nbgrader's plugin, for as many seconds as `lateness` says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import Unicode

from ..course import Course
from ..grading.lateness import lateness, time_without_mark
from ..intake.notes import note_in_force
from ..intake.times import due_dates, handed_in
from ..notebooks import STAMP


class LatePenalties(AssignLatePenalties):
    """nbgrader's late penalties; the due date comes from `assignments.csv` where it has one."""

    course_root = Unicode(help="The course's working folder, which holds assignments.csv.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Enter one submission's time and penalty, and note in the notebook a time that was not believed."""
        names = resources["nbgrader"]
        assignment, student = names["assignment"], names["student"]
        arrival = handed_in(Course(Path(self.course_root)).step("submitted", student, assignment))
        with Gradebook(names["db_url"]) as gradebook:
            due = self.penalise(gradebook, assignment, {student: arrival.time})
        if arrival.note and due is not None:
            stamp = nb.metadata.setdefault(STAMP, {})
            stamp["notes"] = [*stamp.get("notes", []), arrival.note]
        return nb, resources

    def penalise(self, gradebook: Any, assignment: str, arrivals: Mapping[str, datetime | None]) -> datetime | None:
        """Enter the due date, and times and penalties of the students in `arrivals`; returns the due date.

        When the date has changed everybody's penalty changes with it, in the same transaction: once the new date is in
        the gradebook, nothing tells which penalties are of the old one.
        """
        course = Course(Path(self.course_root))
        line, entry = due_dates(course).get(assignment), gradebook.find_assignment(assignment)
        self.init_plugin()
        if line is not None and line.penalty is not None and hasattr(self.plugin_inst, "penalty_method"):
            self.plugin_inst.penalty_method = line.penalty
        before, due = entry.duedate, line.date if line is not None else entry.duedate
        entry.duedate = due
        everybody = due != before
        submissions = entry.submissions if everybody else [gradebook.find_submission(assignment, s) for s in arrivals]
        for submission in submissions:
            student = submission.student.id
            note = note_in_force(course, assignment, student)
            mark = note.late if note is not None else ""
            time = arrivals.get(student, time_without_mark(submission.timestamp, before, mark))
            # nbgrader knows no marks: its time is then just after the due date.
            late = lateness(time, due, None, mark, 0.0).seconds
            submission.timestamp = due + timedelta(seconds=late) if due is not None and late else time
            self._enter(submission, student, lateness(time, due, submission.extension, mark, 0.0).seconds)
        gradebook.db.commit()
        return due

    def _enter(self, submission: Any, student: str, seconds: float) -> None:
        for notebook in submission.notebooks:
            penalty = self.plugin_inst.late_submission_penalty(student, notebook.score, seconds) if seconds else None
            notebook.late_submission_penalty = None if penalty is None else self._check_late_penalty(notebook, penalty)
