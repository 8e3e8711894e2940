"""What travels to another process or machine to be graded there: one submission, and what its course says of it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import platform
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..course import LOCK_SECONDS, Course
from ..intake.reading.archives import RefusedArchive, entries, is_folder, read_file
from ..nbgrader.gradebook_lock import explain_locks
from ..nbgrader.graders import TABLE as MARKS
from ..setting import DESCRIPTIONS, ROOT, SHIPPED_PACKAGES

_MOST_BYTES = 100_000_000
"""A submission with more is graded in its place, not sent."""
_PACKAGES = (
    "nbgrader", "nbclient", "nbconvert", "nbformat", "jupyter_client", "ipykernel", "torch", "torchvision", "numpy",
    "scipy", "scikit-learn", "matplotlib",
)  # fmt: skip
_ABOUT_STUDENTS = ("comment", "grade", "submitted_notebook", "submitted_assignment", "student")


@dataclass(frozen=True)
class GradingTask:
    """One submission with everything that its score depends on, as plain data."""

    assignment: str
    student: str
    course: Mapping[str, bytes]
    """Files of the course by their path in it: the secret, the sets, the assignment, a database without students."""
    submission: Mapping[str, bytes]
    """Every file of the submission by its path in it."""
    without_sandbox: bool
    """Whether it was acknowledged that limits alone hold where there is no sandbox."""
    environment: Mapping[str, str]
    """What must be the same where it is graded."""

    def unpack(self, root: Path) -> Course:
        """Lay everything out below `root`, which is empty, as a course of one submission."""
        course = Course(root, self.without_sandbox)
        folder = course.step("submitted", self.student, self.assignment)
        folder.mkdir(parents=True)
        for below, files in ((root, self.course), (folder, self.submission)):
            for name, content in files.items():
                (below / name).parent.mkdir(parents=True, exist_ok=True)
                (below / name).write_bytes(content)
        return course


class Packer:
    """Makes the tasks of one run."""

    def __init__(self, course: Course) -> None:
        self._course = course
        with explain_locks(course.database):
            self._database = _without_students(course.database)

    def pack(self, assignment: str, student: str) -> GradingTask | None:
        """The task of one submission, or None when it holds more than plain files: that is graded in its place."""
        submission = _plain_files(self._course.step("submitted", student, assignment))
        if submission is None:
            return None
        files = {**self._of_assignment(assignment), "gradebook.db": self._database}
        collected = Path("collected", assignment, f"{student}.json")
        if (self._course.root / collected).is_file():
            files[str(collected)] = (self._course.root / collected).read_bytes()
        return GradingTask(assignment, student, files, submission, self._course.without_sandbox, environment())

    @functools.lru_cache(maxsize=8)  # noqa: B019 - a packer lives as long as its run
    def _of_assignment(self, assignment: str) -> dict[str, bytes]:
        course = self._course
        paths = [course.secret, *(course.notebook(step, assignment) for step in ("source", "release"))]
        paths += [course.replaced_sets] if course.replaced_sets.is_file() else []
        return {str(path.relative_to(course.root)): path.read_bytes() for path in paths}


def _plain_files(folder: Path) -> dict[str, bytes] | None:
    """The files below a submission's folder; None when a link, a pipe, or too much is among them."""
    if folder.parent.is_symlink() or not is_folder(folder):
        return None
    files: dict[str, bytes] = {}
    for entry in entries(folder):
        if entry.problem is not None:
            return None
        try:
            files[entry.name] = read_file(folder / entry.name)
        except (OSError, RefusedArchive):
            return None
        if sum(map(len, files.values())) > _MOST_BYTES:
            return None
    return files


def _without_students(path: Path) -> bytes:
    """nbgrader's database with the assignments alone: nobody's name or score travels."""
    with (
        contextlib.closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS)
        ) as source,
        contextlib.closing(sqlite3.connect(":memory:")) as copy,
    ):
        # Takes the lock, or says that somebody else has it; `backup` would wait for ever.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchall()
        source.backup(copy)
        for table in _ABOUT_STUDENTS:
            copy.execute(f"DELETE FROM {table}")
        copy.execute(f"DROP TABLE IF EXISTS {MARKS}")
        copy.commit()
        # SQLite only marks deleted rows as free; their content would travel in the file.
        copy.execute("VACUUM")
        return copy.serialize()


@functools.cache
def environment() -> dict[str, str]:
    """What a score may depend on besides the submission: Python, packages, this package's code and settings."""
    code = hashlib.sha256()
    folders = {ROOT / "autograders", DESCRIPTIONS, *(ROOT / package for package in SHIPPED_PACKAGES)}
    for path in sorted({path for folder in folders for path in folder.rglob("*.py")}):
        code.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    settings = hashlib.sha256((ROOT / "nbgrader_config.py").read_bytes())
    return {**versions, "nbgrader_config.py": settings.hexdigest()[:12], "this package's code": code.hexdigest()[:12]}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """What differs there from here, in words; empty when nothing does."""
    names = sorted(here.keys() | there.keys())
    return ", ".join(
        f"{name} {there.get(name, 'missing')} (here {here.get(name, 'missing')})"
        for name in names
        if here.get(name) != there.get(name)
    )
