"""Builds what students get, and refuses when its content gives an answer away."""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from . import notebooks
from .course import Course, CourseError
from .course_check import check_master, refuse_lost_metadata, refuse_other_database
from .leaks import LeakCheck, Secret
from .nbgrader_api import generate_assignment
from .notebooks import NOTEBOOKS, ROOT
from .questions import ANSWERS, QUESTIONS
from .seeds import create_secret
from .student_folder import assemble

_MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
_REGION = re.compile(r"### BEGIN SOLUTION\n(.*?)\n\s*### END SOLUTION", re.DOTALL)
_FENCE = re.compile(r"```.*?```", re.DOTALL)


class ReleaseError(RuntimeError):
    """What would ship gives something away, or the course is not in order; nothing was written."""


@dataclass(frozen=True)
class Draft:
    """A release that was checked and is written nowhere yet."""

    bundle: Path
    """The student's folder, in a temporary place."""
    versions: dict[str, str]
    """Assignment -> version."""
    check: LeakCheck

    def leaks(self, folder: Path) -> list[str]:
        """What a folder made from this draft would give away, one line each."""
        return [*map(str, self.check.search_folder(folder)), *_markers(folder)]


@contextlib.contextmanager
def drafted(course: Course, assignments: Sequence[str]) -> Iterator[Draft]:
    """Build and check a release of assignments; it is gone afterwards unless `enter` writes it.

    Raises ReleaseError when a question has no judge, no answers or other points than its judge, or when the bundle's
    content holds a solution, a judge, an answer of the bank or an output of the master.
    """
    masters = {name: notebooks.read(notebooks.master_path(name)) for name in assignments}
    problems = [problem for name, nb in masters.items() for problem in check_master(name, nb)]
    if problems:
        raise ReleaseError("\n".join(problems))
    refuse_lost_metadata(course.config())
    refuse_other_database(course, assignments)
    versions = {name: notebooks.assignment_version(nb) for name, nb in masters.items()}
    with tempfile.TemporaryDirectory(prefix="lecture-release-") as folder:
        draft = Course(Path(folder) / "course")
        released = {name: _generate(draft, name) for name in assignments}
        bundle = Path(folder) / "bundle"
        assemble(bundle, released, versions)
        checked = Draft(bundle, versions, leak_check(masters, released))
        refuse_leaks(checked.leaks(bundle))
        yield checked


def refuse_leaks(leaks: Sequence[str]) -> None:
    """Raise ReleaseError when there are any."""
    if leaks:
        listed = "\n".join(f"  {leak}" for leak in leaks[:20])
        raise ReleaseError(f"what students get would give something away; nothing was written.\n{listed}")


def enter(course: Course, draft: Draft) -> None:
    """Write a draft into a course's working folder: sources, releases, database, the student's bundle."""
    course.root.mkdir(parents=True, exist_ok=True)
    create_secret(course.secret)
    for name in draft.versions:
        _generate(course, name)
    _replace(draft.bundle, course.bundle)
    shutil.make_archive(str(course.bundle), "zip", course.bundle)


def release(course: Course, assignments: Sequence[str]) -> dict[str, str]:
    """Release assignments into a course's working folder and build the student's bundle.

    Returns assignment -> version. Raises ReleaseError, as `drafted` does, before anything is written.
    """
    with drafted(course, assignments) as draft:
        enter(course, draft)
    return draft.versions


def _generate(course: Course, assignment: str) -> NotebookNode:
    """Run nbgrader's generate_assignment on a snapshot of the master."""
    source = course.notebook("source", assignment)
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(notebooks.master_path(assignment), source)
    generate_assignment(course, assignment)
    return notebooks.read(course.notebook("release", assignment))


def leak_check(masters: dict[str, NotebookNode], released: dict[str, NotebookNode]) -> LeakCheck:
    """The check for these masters: their solutions and outputs, the judges and the bank against the rest."""
    library = [path.read_text("utf-8") for path in sorted((ROOT / "lecture_lib").rglob("*.py"))]
    prose = [
        _FENCE.sub(" ", cell.source)
        for nb in masters.values()
        for cell in nb.cells
        if cell.cell_type == "markdown" and not cell.metadata.get("nbgrader", {}).get("solution")
    ]
    stubs = [
        cell.source
        for nb in released.values()
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    ]
    code = [cell.source for nb in released.values() for cell in nb.cells if cell.cell_type == "code"]
    # Cells that show or prepare something hold the idioms of training loops. A whole answer in them is still found.
    shown = [cell.source for nb in masters.values() for cell in nb.cells if {"demo", "setup"} & set(_tags(cell))]
    return LeakCheck(list(_secrets(masters)), [*library, *prose, *shown], code, stubs)


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def _secrets(masters: dict[str, NotebookNode]) -> Iterator[Secret]:
    for name, nb in masters.items():
        for cell in nb.cells:
            meta = cell.metadata.get("nbgrader", {})
            if meta.get("solution"):
                regions = _REGION.findall(cell.source) or [cell.source]
                for number, region in enumerate(regions, 1):
                    yield Secret(f"the solution {name}/{meta['grade_id']} ({number})", region)
            for output in cell.get("outputs", []):
                text = _output_text(output)
                if text:
                    yield Secret(f"an output of {name}/{cell['id']}", text, written_by_code=True)
    for path in sorted((Path(__file__).parent / "judges").glob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                yield Secret(f"the judge {path.name}", ast.get_source_segment(text, node) or "")
    for question_id in (*QUESTIONS, *(path.name for path in ANSWERS.iterdir() if path.name not in QUESTIONS)):
        for path in sorted((ANSWERS / question_id).iterdir()):
            if path.is_file():
                yield Secret(f"the answer {question_id}/{path.name}", path.read_text("utf-8"))


def _output_text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    data = output.get("data", {})
    return str(data.get("image/png", "")[:4000] or data.get("text/plain", ""))


def _markers(bundle: Path) -> list[str]:
    """Marked regions that nbgrader should have removed."""
    found = []
    for path in sorted(bundle.rglob("*.ipynb")):
        for cell in notebooks.read(path).cells:
            if match := _MARKERS.search(cell.source):
                found.append(f"{path.relative_to(bundle)}, cell {cell['id']} holds the marker {match[0]}")
    return found


def _replace(new: Path, target: Path) -> None:
    """Put `new` where `target` is; a crash leaves the old folder or the new one, under its name or beside it."""
    staged, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    for leftover in (staged, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(new, staged)
    if target.exists():
        target.rename(old)
    staged.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def default_assignments() -> list[str]:
    """Every assignment that has been built. Raises CourseError when there is none."""
    found = notebooks.assignments()
    if not found:
        raise CourseError(f"no notebooks in {NOTEBOOKS}: run `make notebooks` first.")
    return found
