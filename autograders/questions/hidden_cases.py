"""The hidden cases that belong to one submission: drawn alike before it runs and again when it is judged."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from .. import notebooks
from .cases import Case
from .question import Question, questions_of
from .seeds import CourseSets, pool_index


def solution_digest(nb: NotebookNode) -> str:
    """A digest of a notebook's answers: the sources of its solution cells by id. Sixty-four hexadecimal digits."""
    # Of answers alone: outputs, notes and cells put in between do not change which inputs a submission gets.
    digest = hashlib.sha256()
    for grade_id, source in sorted(solutions(nb).items()):
        digest.update(f"{grade_id}\x1f{source}\x1e".encode())
    return digest.hexdigest()


def solutions(nb: NotebookNode) -> dict[str, str]:
    """The sources of the solution cells, by nbgrader id."""
    cells = ((cell.metadata.get("nbgrader", {}), cell.source) for cell in nb.cells)
    return {meta["grade_id"]: source for meta, source in cells if meta.get("solution") and "grade_id" in meta}


class DrawnCases:
    """The hidden cases of every question of a submitted notebook."""

    def __init__(self, course_root: Path, assignment: str, nb: NotebookNode) -> None:
        self._root = course_root
        self._assignment = assignment
        self._nb = nb

    @cached_property
    def version(self) -> str:
        """The version of the assignment that this course released."""
        return notebooks.read_version(self._root / "source" / self._assignment / f"{self._assignment}.ipynb")

    @cached_property
    def questions(self) -> list[Question]:
        """The notebook's autograded questions, in order."""
        return list(questions_of([cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in self._nb.cells]))

    @cached_property
    def pool(self) -> int:
        """Which set of hidden inputs this submission gets."""
        return pool_index(self._sets.secret, solution_digest(self._nb))

    def cases(self, question: Question) -> list[Case]:
        """The hidden cases of one question; the same submission always gets the same ones."""
        return question.draw(*self._seed(question))

    def inputs(self, question: Question) -> str:
        """The inputs of these cases, as JSON."""
        return question.inputs(*self._seed(question))

    @cached_property
    def _sets(self) -> CourseSets:
        return CourseSets(self._root)

    def _seed(self, question: Question) -> tuple[bytes, str, int]:
        return self._sets.seed(question.id, self.version, self.pool)
