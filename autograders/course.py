"""A course's working folder, and the nbgrader configuration that goes with it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traitlets.config import Config

from .notebooks import ROOT

COURSE_VARIABLE = "LECTURE_COURSE"
STUB = "...  # write your answer here"
TEXT_STUB = "*Write your answer here.*"
CELL_SECONDS = 30
"""The computing time of one cell while grading; the notebooks state it with each question."""
WITHOUT_SANDBOX_VARIABLE = "LECTURE_WITHOUT_SANDBOX"


class CourseError(RuntimeError):
    """The working folder or its configuration cannot be used; the message has the remedy."""


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
        return f"sqlite:///{self.root / 'gradebook.db'}"

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

    def config(self) -> Config:
        """nbgrader's configuration for this course: the same that `nbgrader_config.py` gives its own commands."""
        config = own_settings()
        configure(config, self)
        return config

    def require_release(self, assignment: str) -> None:
        """Raise CourseError unless `assignment` was released into this folder."""
        if not self.notebook("source", assignment).exists():
            raise CourseError(f"{assignment} was not released into {self.root}: run `autograde release` first.")


def own_settings() -> Config:
    """What the instructor added to the checkout's nbgrader_config.py, such as a plugin for late penalties."""
    from traitlets.config.loader import PyFileConfigLoader

    config: Config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    return config


def configure(config: Any, course: Course) -> None:
    """Enter our settings and preprocessors into an nbgrader configuration."""
    from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import (
        ClearHiddenTests,
        ClearMarkScheme,
        ClearOutput,
        DeduplicateIds,
        GetGrades,
        IgnorePattern,
        LimitOutput,
        OverwriteCells,
        OverwriteKernelspec,
    )

    from .exporter import CheckMetadataOnce, LenientExporter
    from .judged import JudgeCells
    from .late import LatePenalties
    from .readable import ReadableFeedback
    from .rebuild import RebuildFromMaster
    from .sandbox.execute import ProbedExecute
    from .saved import SaveGrades
    from .set_aside import SetAsideOddFiles
    from .stamp import StampRelease

    config.CourseDirectory.root = str(course.root)
    config.CourseDirectory.db_url = course.gradebook
    config.ClearSolutions.code_stub = {"python": STUB}
    config.ClearSolutions.text_stub = TEXT_STUB
    for ours in (RebuildFromMaster, ProbedExecute, JudgeCells, SaveGrades, LatePenalties, ReadableFeedback):
        config[ours.__name__].course_root = str(course.root)
    config.ProbedExecute.cell_seconds = CELL_SECONDS
    config.ProbedExecute.without_sandbox = course.without_sandbox
    config.ProbedExecute.skip_cells_with_tag = "demo"
    stock = GenerateAssignment.class_traits()["preprocessors"].default()
    config.GenerateAssignment.preprocessors = [StampRelease, *stock]
    config.Autograde.exporter_class = LenientExporter
    config.LenientExporter.optimistic_validation = True  # once at the end, not after each of nine steps
    config.Autograde.pre_convert_hook = SetAsideOddFiles(str(course.root))
    config.Autograde.sanitize_preprocessors = [
        RebuildFromMaster,
        ClearOutput,
        DeduplicateIds,
        OverwriteKernelspec,
        OverwriteCells,
        CheckMetadataOnce,
    ]
    # nbgrader's list without ClearMetadataPreprocessor: enabled, it strips the metadata that scores are saved by.
    config.Autograde.autograde_preprocessors = [
        ProbedExecute,
        IgnorePattern,
        JudgeCells,
        LimitOutput,
        SaveGrades,
        LatePenalties,
        CheckMetadataOnce,
    ]
    # Stock feedback prints hidden tests and mark schemes.
    config.GenerateFeedback.preprocessors = [
        GetGrades,
        ClearHiddenTests,
        ClearMarkScheme,
        CSSHTMLHeaderPreprocessor,
        ReadableFeedback,
    ]
