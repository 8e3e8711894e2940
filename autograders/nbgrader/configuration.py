"""nbgrader's configuration for a course: its settings, and which of our steps are in its converters."""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    DeduplicateIds,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    OverwriteCells,
    OverwriteKernelspec,
)
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from ..course import CELL_SECONDS, STUB, TEXT_STUB, Course
from ..notebooks import ROOT
from ..sandbox.execute import ProbedExecute
from .graders import note_graders
from .judge_cells import JudgeCells
from .late_penalties import LatePenalties
from .lenient_exporter import CheckMetadataOnce, LenientExporter, RebuildFromMaster
from .put_variants import PutVariants
from .readable_feedback import ReadableFeedback
from .safe_page_exporter import SafePageExporter
from .save_grades import SaveGrades
from .set_aside_odd_files import SetAsideOddFiles
from .stamp_release import StampRelease


def configuration(course: Course) -> Config:
    """nbgrader's configuration for this course: the same that `nbgrader_config.py` gives its own commands."""
    config = own_settings()
    configure(config, course)
    return config


def steps_of_grading(config: Config) -> tuple[list[Any], list[Any]]:
    """What is done with a notebook, before its scores are saved and from there on."""
    steps = list(config.Autograde.autograde_preprocessors)
    saving = steps.index(SaveGrades)
    return steps[:saving], steps[saving:]


def own_settings() -> Config:
    """What the instructor added to the checkout's nbgrader_config.py, such as a plugin for late penalties."""
    config: Config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    return config


def configure(config: Any, course: Course) -> None:
    """Enter our settings and preprocessors into an nbgrader configuration."""
    note_graders()
    config.CourseDirectory.root = str(course.root)
    config.CourseDirectory.db_url = course.gradebook
    config.ClearSolutions.code_stub = {"python": STUB}
    config.ClearSolutions.text_stub = TEXT_STUB
    for step in (
        PutVariants,
        RebuildFromMaster,
        ProbedExecute,
        JudgeCells,
        SaveGrades,
        LatePenalties,
        ReadableFeedback,
    ):
        config[step.__name__].course_root = str(course.root)
    config.ProbedExecute.cell_seconds = CELL_SECONDS
    config.ProbedExecute.without_sandbox = course.without_sandbox
    config.ProbedExecute.skip_cells_with_tag = "demo"
    stock = GenerateAssignment.class_traits()["preprocessors"].default()
    cleared = stock.index(ClearSolutions) + 1
    config.GenerateAssignment.preprocessors = [StampRelease, *stock[:cleared], PutVariants, *stock[cleared:]]
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
    config.GenerateFeedback.exporter_class = SafePageExporter
    config.SafePageExporter.optimistic_validation = True
    # Stock feedback prints hidden tests and mark schemes.
    config.GenerateFeedback.preprocessors = [
        GetGrades,
        ClearHiddenTests,
        ClearMarkScheme,
        CSSHTMLHeaderPreprocessor,
        ReadableFeedback,
    ]
