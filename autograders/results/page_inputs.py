"""What a feedback page is made from, as a digest at its end: a page whose digest is the same is not made again."""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from ..course import Course
from ..intake.notes import note_path
from ..nbgrader.database import open_gradebook
from ..nbgrader.scores import maxima, scores_of
from ..notebooks import ROOT
from ..questions.titles import question_titles

_PACKAGE = Path(__file__).parents[1]


class PageInputs:
    """The digests of one assignment's pages. The gradebook is read once, for the whole class."""

    def __init__(self, course: Course, assignment: str) -> None:
        """Args: the course and the assignment."""
        self._course, self._assignment = course, assignment
        self._graded: dict[str, str] = defaultdict(str)
        with open_gradebook(course) as gradebook:
            self._maxima = repr(maxima(gradebook, assignment))
            for student, scores in scores_of(gradebook, assignment).items():
                self._graded[student] = repr(scores)
            for student, comment in _comments(gradebook, assignment):
                self._graded[student] += comment

    def ending(self, student: str) -> str:
        """The end of a student's page: a comment with the digest of everything that the page is made from."""
        course, assignment = self._course, self._assignment
        digest = hashlib.sha256(_code_digest())
        for text in (self._maxima, self._graded[student], assignment, student):
            digest.update(hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest())
        for path in (
            course.notebook("autograded", assignment, student),
            course.journal(assignment, student),
            note_path(course, assignment, student),
            course.root / "published.json",
            course.root / "releases.json",
            course.root / "assignments.csv",
        ):
            digest.update(hashlib.sha256(path.read_bytes() if path.is_file() else b"").digest())
        return f"<!-- made from {digest.hexdigest()} -->\n"


def is_current(page: Path, ending: str) -> bool:
    """Whether a page exists and was made from what there is now."""
    try:
        with page.open("rb") as file:
            file.seek(max(page.stat().st_size - len(ending), 0))
            return file.read() == ending.encode()
    except OSError:
        return False


def _comments(gradebook: object, assignment: str) -> list[tuple[str, str]]:
    """Every comment of an assignment: the student, and the cell with the comment as text."""
    from nbgrader.api import Assignment, BaseCell, Comment, SubmittedAssignment, SubmittedNotebook
    from sqlalchemy import select

    comments = (
        select(SubmittedAssignment.student_id, BaseCell.name, Comment.auto_comment, Comment.manual_comment)
        .join_from(Comment, BaseCell, Comment.cell_id == BaseCell.id)
        .join(SubmittedNotebook, Comment.notebook_id == SubmittedNotebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
        .where(Assignment.name == assignment)
        .order_by(SubmittedAssignment.student_id, BaseCell.name)
    )
    rows = gradebook.db.execute(comments)  # type: ignore[attr-defined]
    return [(student, repr(texts)) for student, *texts in rows]


@functools.cache
def _code_digest() -> bytes:
    """Of the programs that make a page, the questions' titles on it, and the instructor's settings."""
    digest = hashlib.sha256(f"{version('nbgrader')} {version('nbconvert')} {question_titles()}".encode())
    files = sorted(path for path in _PACKAGE.rglob("*") if path.suffix in {".py", ".j2"})
    for path in (*files, ROOT / "nbgrader_config.py"):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()
