"""A course's working folder: where each thing in it lies."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from .notebooks import NOTEBOOKS, ROOT, assignments

COURSE_VARIABLE = "LECTURE_COURSE"
STUB = "...  # write your answer here"
TEXT_STUB = "*Write your answer here.*"
CELL_SECONDS = 30
"""The computing time of one cell while grading; the notebooks state it with each question."""
LOCK_SECONDS = 60
"""How long to wait for a gradebook that another program has locked; SQLite's own patience is five seconds."""
WITHOUT_SANDBOX_VARIABLE = "LECTURE_WITHOUT_SANDBOX"


class CourseError(RuntimeError):
    """The working folder or its configuration cannot be used; the message has the remedy."""


class ReleaseError(RuntimeError):
    """What would ship gives something away, or the course is not in order; nothing was written."""


def default_assignments() -> list[str]:
    """Every assignment that has been built. Raises CourseError when there is none."""
    names = assignments()
    if not names:
        raise CourseError(f"no notebooks in {NOTEBOOKS}: run `make notebooks` first.")
    return names


@dataclass(frozen=True)
class Course:
    """The folders of one course. Everything in it is the instructor's; nothing of it is committed or shipped."""

    root: Path
    without_sandbox: bool = field(default_factory=lambda: os.environ.get(WITHOUT_SANDBOX_VARIABLE) == "1")
    """Whether it was acknowledged that students' code runs with limits alone where there is no bubblewrap."""

    def __post_init__(self) -> None:
        """Refuse a folder whose name nbgrader would take for a pattern, and then copy too much."""
        if set("*?[]") & set(str(self.root)):
            raise CourseError(f"{self.root}: nbgrader reads * ? [ ] in a path as a pattern; use another folder.")

    @classmethod
    def default(cls) -> Course:
        """The folder that the environment variable LECTURE_COURSE names, or `grading/` in the checkout."""
        return cls(Path(os.environ.get(COURSE_VARIABLE) or ROOT / "grading").resolve())

    @property
    def secret(self) -> Path:
        """From which hidden inputs are drawn. Keep a copy: without it nothing can be regraded."""
        return self.root / "secret"

    @property
    def replaced_sets(self) -> Path:
        """Optional: the sets of hidden inputs that a release replaced. Keep a copy, as you do of the secret."""
        return self.root / "sets.json"

    @property
    def roster(self) -> Path:
        """Optional: a CSV with the column `id` (and `first_name`, `last_name`, `email`), one row a student."""
        return self.root / "roster.csv"

    @property
    def known(self) -> Path:
        """What a simulated class must get."""
        return self.root / "known.csv"

    @property
    def grades(self) -> Path:
        """The registrar's table."""
        return self.root / "grades.csv"

    @property
    def bundle(self) -> Path:
        """What students get."""
        return self.root / "bundle"

    @property
    def gradebook(self) -> str:
        """nbgrader's database, as an SQLAlchemy address."""
        return f"sqlite:///{self.database}?timeout={LOCK_SECONDS}"

    @property
    def database(self) -> Path:
        """The file of nbgrader's database."""
        return self.root / "gradebook.db"

    @property
    def staged(self) -> Path:
        """Where nbgrader's converters write; what is finished is moved to its place in one step."""
        return self.root / ".staged"

    def step(self, name: str, student: str = ".", assignment: str = "") -> Path:
        """A folder of nbgrader's: source, release, submitted, autograded or feedback."""
        return self.root / name / student / assignment

    def notebook(self, name: str, assignment: str, student: str = ".") -> Path:
        """The notebook of an assignment in one of nbgrader's folders."""
        return self.step(name, student, assignment) / f"{assignment}.ipynb"

    def journal(self, assignment: str, student: str) -> Path:
        """The journal record of one submission."""
        return self.root / "journal" / assignment / f"{student}.json"

    def require_release(self, assignment: str) -> None:
        """Raise CourseError unless `assignment` was released into this folder."""
        if not self.notebook("source", assignment).exists():
            raise CourseError(f"{assignment} was not released into {self.root}: run `autograde release` first.")


def released(course: Course) -> list[str]:
    """Every assignment that was released into a course, in order."""
    return sorted(
        path.parent.name for path in course.step("release").glob("*/*.ipynb") if path.stem == path.parent.name
    )
