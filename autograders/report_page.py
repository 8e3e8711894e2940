"""The class report as one HTML page: no script, no file beside it, readable on light and dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .course import CELL_SECONDS
from .report import BUCKETS, AssignmentReport

TEMPLATES = Path(__file__).parent / "templates"


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
    return page.render(assignments=assignments, names=names, buckets=BUCKETS, limit=CELL_SECONDS)
