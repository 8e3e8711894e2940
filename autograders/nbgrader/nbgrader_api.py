"""The few calls of nbgrader that this package makes: its converters, quietly, with the reason when one fails."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traitlets.config import Config

from ..course import Course, CourseError
from ..intake.reading.limited_process import LimitedProcess, OverLimit
from ..intake.reading.submission_limits import PAGE_MEGABYTES, PAGE_SECONDS
from .database import open_gradebook, put_scripts_on_path
from .gradebook_lock import refuse_lock


@functools.cache
def _page_process(worker: int) -> LimitedProcess:
    """The process that makes the pages of one worker."""
    preload = ["autograders.nbgrader.configuration", "nbgrader.converters"]
    process = LimitedProcess(PAGE_SECONDS, PAGE_MEGABYTES, preload)
    atexit.register(process.close)
    return process


class ConversionError(RuntimeError):
    """nbgrader could not convert a notebook; the message has its reason, `__cause__` the exception itself."""


class _Remember(logging.Handler):
    """Keeps the first exception that nbgrader logs: it raises another one, without it, at the end."""

    raised: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exception that is being handled while a line is logged."""
        self.raised = self.raised or sys.exc_info()[1]


def generate_assignment(course: Course, assignment: str) -> None:
    """nbgrader's generate_assignment on the course's source folder. Raises ConversionError."""
    from nbgrader.converters import GenerateAssignment

    _run(course, GenerateAssignment, assignment)


def autograde(course: Course, assignment: str, student: str, *, saving: bool = True) -> None:
    """nbgrader's autograde of one submission as `intake.stage` prepared it; with or without entering its scores.

    Raises ConversionError.
    """
    from nbgrader.converters import Autograde

    from .configuration import configuration, steps_of_grading

    config = configuration(course)
    if not saving:
        config.Autograde.autograde_preprocessors = steps_of_grading(config)[0]
    _staged(course, Autograde, "autograded", assignment, student, config, submitted_directory="received")


def generate_feedback(course: Course, assignment: str, student: str, ending: str = "", worker: int = 0) -> None:
    """nbgrader's feedback for one submission, with `ending` behind the page. Raises ConversionError.

    In a process of its own, one for each `worker`: what a student wrote can keep the renderers of Markdown and code
    busy for hours.
    """
    staging = course.staged / f"feedback-{worker}"
    try:
        _page_process(worker).call(convert_to_feedback, course, assignment, student, ending, staging)
    except OverLimit as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise ConversionError(f"making the page {error}") from None


def convert_to_feedback(course: Course, assignment: str, student: str, ending: str, staging: Path) -> None:
    """What `generate_feedback` does, in this process."""
    from nbgrader.converters import GenerateFeedback

    _staged(course, GenerateFeedback, "feedback", assignment, student, staging=staging, ending=ending)


def penalise_again(course: Course, assignment: str) -> None:
    """Enter the due date of assignments.csv; when it is another than before, with everybody's penalty for it."""
    from .configuration import configuration
    from .late_penalties import LatePenalties

    log = logging.getLogger("autograders.nbgrader")
    log.propagate = False
    with open_gradebook(course) as gradebook:
        LatePenalties(config=configuration(course), log=log).penalise(gradebook, assignment, {})


def _staged(
    course: Course,
    converter: Any,
    step: str,
    assignment: str,
    student: str,
    config: Config | None = None,
    staging: Path | None = None,
    ending: str = "",
    **folders: str,
) -> None:
    """Let nbgrader write beside the folder `step`, and move what it wrote there when it is whole."""
    staging = staging or course.staged
    staged = staging / student / assignment
    try:
        folders[f"{step}_directory"] = str(staging.relative_to(course.root))
        _run(course, converter, assignment, student, config, **folders)
        for graded in staged.glob("*.ipynb") if step == "feedback" else ():
            # nbgrader copies the graded notebook, hidden tests included, when a name looks like a pattern ("[m]*").
            graded.unlink()
        if ending:
            with (staged / f"{assignment}.html").open("a", encoding="utf-8") as page:
                page.write(ending)
        put_in_place(course, step, assignment, student, staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def put_in_place(course: Course, step: str, assignment: str, student: str, staging: Path | None = None) -> None:
    """Move what was written for a submission from the staging folder to the folder `step`, in one step."""
    staging = staging or course.staged
    target = course.step(step, student, assignment)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A folder cannot be renamed onto another; the old one goes with the staging folder.
    if target.exists():
        target.rename(staging / ".old")
    (staging / student / assignment).rename(target)


def _run(
    course: Course,
    converter: Any,
    assignment: str,
    student: str | None = None,
    config: Config | None = None,
    **folders: str,
) -> None:
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.utils import capture_log
    from sqlalchemy.exc import SAWarning

    from .configuration import configuration

    if not course.root.is_dir():
        raise CourseError(f"{course.root} does not exist: run `autograde release` first.")
    put_scripts_on_path()
    config = config or configuration(course)
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = assignment
    if student is not None:
        coursedir.student_id = student
        # nbgrader copies whatever lies beside a notebook: pipes stop it, links lead it to the secret. Nothing needs it.
        coursedir.ignore = ["*"]
    for name, folder in folders.items():
        setattr(coursedir, name, folder)
    log = logging.getLogger("autograders.nbgrader")
    log.propagate = False
    remembered = _Remember()
    app = converter(coursedir=coursedir, config=config, log=log)
    # Without it nbgrader grades nothing whose folder exists. The journal decides what is done.
    app.force = True
    app.init_notebooks = lambda: _name_the_notebook(app, assignment, student or ".")
    with warnings.catch_warnings(), _quick_databases():
        # nbgrader 0.9's own use of SQLAlchemy: objects not in a session while it adds a submission. Nothing of ours.
        warnings.simplefilter("ignore", SAWarning)
        log.addHandler(remembered)
        try:
            result = capture_log(app)
        finally:
            log.removeHandler(remembered)
    if not result["success"]:
        # capture_log catches everything, an interrupt by the instructor too.
        if isinstance(remembered.raised, KeyboardInterrupt) or "KeyboardInterrupt" in result["error"]:
            raise KeyboardInterrupt
        refuse_lock(remembered.raised, course.database)
        raise ConversionError(_reason(remembered.raised, result)) from remembered.raised


@functools.lru_cache(maxsize=4)
def _engine(address: str, **settings: Any) -> Any:
    from sqlalchemy import create_engine

    return create_engine(address, **settings)


@functools.cache
def _schema_version() -> str:
    """The version that nbgrader notes in a new database."""
    import nbgrader
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(nbgrader.__file__).parent / "alembic"))
    return str(ScriptDirectory.from_config(config).get_current_head())


@contextlib.contextmanager
def _quick_databases() -> Iterator[None]:
    """Let nbgrader's gradebooks share an engine: it opens eleven for a notebook, and each compiles all statements anew.

    A gradebook that closes still closes its connections; what is kept is what was compiled. And the version of a new
    database is looked up here, where nbgrader starts a program for it (two seconds).
    """
    from nbgrader import api

    engine, version = api.create_engine, api.get_alembic_version
    api.create_engine, api.get_alembic_version = _engine, _schema_version
    try:
        yield
    finally:
        api.create_engine, api.get_alembic_version = engine, version


def _name_the_notebook(app: Any, assignment: str, student: str) -> None:
    """Tell a converter its one notebook. By itself it would take names of folders and students for patterns."""
    folder = app._format_source(assignment, student)
    notebook = Path(folder) / f"{assignment}.ipynb"
    if not notebook.is_file():
        raise ConversionError(f"no notebook {notebook}")
    app.assignments, app.notebooks = {folder: [os.path.join(folder, notebook.name)]}, []  # noqa: PTH118 - keeps "./"


def _reason(raised: BaseException | None, result: dict[str, Any]) -> str:
    """The exception that nbgrader met, which says more than the one it ends with."""
    if raised is None:
        return str(result["error"].strip().splitlines()[-1])
    return f"{type(raised).__name__}: {raised}"
