"""The class report as one HTML page: no script, no file beside it, readable on light and dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..course import CELL_SECONDS, Course, CourseError
from ..files import write_text_atomically
from ..setting import SETTING
from .report import BUCKETS, AssignmentReport, assignment_report
from .safe_html import POLICY

TEMPLATES = Path(__file__).parent / "templates"


def write_report(course: Course, assignments: Sequence[str], *, names: bool = False, to: Path | None = None) -> Path:
    """Write the class's page; without `names` nothing on it names a student or shows what one wrote."""
    path = to or course.root / "report.html"
    if path.is_dir():
        raise CourseError(f"{path} is a folder; name the file: --to {path / 'report.html'}")
    write_text_atomically(path, render([assignment_report(course, name, names=names) for name in assignments], names))
    return path


def render(assignments: Sequence[AssignmentReport], names: bool) -> str:
    """The page of a class."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2")
    return page.render(
        assignments=assignments, names=names, buckets=BUCKETS, limit=CELL_SECONDS, policy=POLICY, title=SETTING.title
    )
