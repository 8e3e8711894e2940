"""Builds what students get, and refuses when its content gives an answer away."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from lecture_lib.notebook.registry import visible_cases_path

from .. import notebooks
from ..course import Course, ReleaseError
from ..intake.intake import submitted_students
from ..nbgrader.configuration import configuration
from ..nbgrader.lost_metadata import refuse_lost_metadata
from ..nbgrader.nbgrader_api import generate_assignment
from ..nbgrader.replace_cells import replace_cells
from ..questions.question import QUESTIONS, answers_to
from ..questions.seeds import (
    Substitutes,
    add_substitutes,
    create_secret,
    new_secret,
    read_secret,
    read_substitutes,
)
from ..setting import ANSWERS, DESCRIPTIONS, ROOT, SHIPPED_PACKAGES
from .course_check import check_master, refuse_other_database
from .edits import replace_folder
from .history import REMOVED_SCORES, effects, note_release, read_history, release_of
from .leaks import LeakCheck, Secret
from .release_check import WrongVerdicts, verify_on
from .student_folder import FOLDER, assemble

_NAME = 40  # characters of a name in the file of a visible check, at most
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
_FENCE = re.compile(r"```.*?```", re.DOTALL)


@dataclass(frozen=True)
class Draft:
    """A release that was checked and is written nowhere yet."""

    bundle: Path
    """The student's folder, in a temporary place."""
    versions: dict[str, str]
    """Assignment -> version."""
    secret: bytes
    """The course's secret, or the one that it gets when the draft is entered."""
    check: LeakCheck
    substitutes: Substitutes = field(default_factory=dict)
    """The sets of hidden inputs that the trial of the graders replaced."""

    def leaks(self, folder: Path) -> list[str]:
        """What a folder made from this draft would give away, one line each."""
        return [*map(str, self.check.search_folder(folder)), *_markers(folder)]


@contextlib.contextmanager
def drafted(
    course: Course, assignments: Sequence[str], *, verify: bool = True, progress: bool = False, replace: bool = False
) -> Iterator[Draft]:
    """Build and check a release of assignments; it is gone afterwards unless `enter` writes it.

    `replace` says that it may follow another release from which students have handed in already.

    Raises ReleaseError when the course has no place to be written to, when a question has no judge, no answers or other
    points than its judge, when students have handed in from another release (unless `replace` is true), when the
    bundle's content holds a solution, a judge, an answer of the bank or an output of the master, or (unless `verify` is
    false) when a grader errs on more hidden inputs of this course than can be replaced.
    """
    _require_place(course.root)
    masters = {name: notebooks.read(notebooks.master_path(name)) for name in assignments}
    problems = [problem for name, nb in masters.items() for problem in check_master(name, nb)]
    if problems:
        raise ReleaseError("\n".join(problems))
    refuse_lost_metadata(configuration(course))
    refuse_other_database(course, assignments)
    versions = {name: notebooks.assignment_version(nb) for name, nb in masters.items()}
    with tempfile.TemporaryDirectory(prefix="lecture-release-") as folder:
        draft = Course(Path(folder) / "course")
        # A new one is written to the course by `enter`: a release that is refused leaves no secret behind.
        is_new = not course.secret.exists()
        secret = new_secret() if is_new else read_secret(course.secret)
        before = {} if is_new else read_substitutes(course.root)
        draft.root.mkdir()
        create_secret(draft.secret, secret)  # it chooses the variants of questions
        released = {name: _generate(draft, name) for name in assignments}
        if not replace:
            _refuse_replacing(course, draft, assignments)
        bundle = Path(folder) / FOLDER
        assemble(bundle, released, versions)
        checked = Draft(bundle, versions, secret, leak_check(masters, released))
        # Before the bank is tried, which takes minutes.
        refuse_leaks(checked.leaks(bundle))
        if verify:
            try:
                settled = [name for name in assignments if _handed_in(course, name, versions[name])]
                substitutes = verify_on(secret, versions, before, handed_in=settled, progress=progress)
            except WrongVerdicts as error:
                raise ReleaseError(str(error)) from None
            checked = dataclasses.replace(checked, substitutes=substitutes)
        yield checked


def _handed_in(course: Course, assignment: str, version: str) -> bool:
    """Whether there is work of students on this version, whose inputs must stay."""
    released = read_history(course).get(assignment, [])
    return any(each.version == version for each in released) and bool(submitted_students(course, assignment))


def _require_place(folder: Path) -> None:
    """Raise ReleaseError for a course that could not be written at the end, minutes from now."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ReleaseError(f"{existing} is a file, and a course is a folder. Name another place with --course.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ReleaseError(f"{existing} is not a folder that you may write to. Name another place with --course.")


def _refuse_replacing(course: Course, draft: Course, assignments: Sequence[str]) -> None:
    """Raise ReleaseError with what a new release would change, where students have handed in from an earlier one."""
    lines = []
    for name in assignments:
        if course.notebook("release", name).is_file():
            before, after = (release_of(each.notebook("release", name)) for each in (course, draft))
            lines += effects(course, name, before, after)
    if lines:
        raise ReleaseError(
            "\n".join(["students have handed in from an earlier release; nothing was written.", *lines])
            + "\nIf you want that, add --replace."
        )


def refuse_leaks(leaks: Sequence[str]) -> None:
    """Raise ReleaseError when there are any."""
    if leaks:
        listed = "\n".join(f"  {leak}" for leak in leaks[:20])
        raise ReleaseError(f"what students get would give something away; nothing was written.\n{listed}")


def enter(course: Course, draft: Draft) -> None:
    """Write a draft into a course's working folder: sources, releases, database, the student's bundle."""
    course.root.mkdir(parents=True, exist_ok=True)
    if not course.secret.exists():
        course.replaced_sets.unlink(missing_ok=True)  # of a secret that is gone
    if create_secret(course.secret, draft.secret) != draft.secret:
        raise ReleaseError(f"another release has written {course.secret} meanwhile. Run the command again.")
    add_substitutes(course.root, draft.substitutes)
    for name in draft.versions:
        note_release(course, name)  # what is there: by an older checkout, which noted nothing
        replace_cells(course, name, notebooks.read(notebooks.master_path(name)), REMOVED_SCORES)
        _generate(course, name)
        note_release(course, name)
    # Last, so that students never get notebooks that the gradebook does not know.
    replace_folder(draft.bundle, course.bundle, course.bundle.with_name(f"{course.bundle.name}.zip"))


def release(
    course: Course, assignments: Sequence[str], *, verify: bool = True, progress: bool = False, replace: bool = False
) -> dict[str, str]:
    """Release assignments into a course's working folder and build the student's bundle.

    Returns assignment -> version. Raises ReleaseError, as `drafted` does, before anything is written.
    """
    with drafted(course, assignments, verify=verify, progress=progress, replace=replace) as draft:
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
    library = [
        path.read_text("utf-8") for package in SHIPPED_PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
    ]
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
    demonstrations = [
        cell.source for nb in masters.values() for cell in nb.cells if {"demo", "setup"} & set(_tags(cell))
    ]
    # The numbers of a visible case are in its description too, and are given away as a stub is.
    return LeakCheck(
        [*_secrets(masters), *_other_variants(stubs)],
        [*library, *prose, *demonstrations],
        code,
        [*stubs, *_visible_words()],
    )


def _visible_words() -> Iterator[str]:
    """What the visible checks hold: numbers and names as their files have them, sentences as described.

    Code and longer texts that only such a file has, which no check needs, are still noticed.
    """
    for question in QUESTIONS.values():
        path = visible_cases_path(question.id)
        if path.exists():
            yield _JSON_TEXT.sub(_names_alone, path.read_text("utf-8"))
        yield from (f"{case.kind}," for case in question.description.visible_cases)  # as a check's lines show it
        published = question.description.misconceptions(published=True).values()
        yield from (words for mistake in published for words in (mistake.what, mistake.look_at))


def _names_alone(text: re.Match[str]) -> str:
    """A text of a JSON file; empty where it is long, or holds what code does."""
    return '""' if len(text[0]) > _NAME or re.search(r"[=(\[\\]", text[0]) else text[0]


def _other_variants(released: Sequence[str]) -> Iterator[Secret]:
    """What the answer cells of other courses hold, and what solves any of them."""
    for variant in (variant for question in QUESTIONS.values() for variant in question.variants):
        identity = f"{variant.description.id}, {variant.name}"
        yield Secret(f"the solution of {identity}", variant.solution)
        if variant.stub not in released:
            yield Secret(f"the released cell of {identity}", variant.stub)


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def _secrets(masters: dict[str, NotebookNode]) -> Iterator[Secret]:
    for name, nb in masters.items():
        for cell in nb.cells:
            meta = cell.metadata.get("nbgrader", {})
            if meta.get("solution"):
                regions = notebooks.separate_solutions(cell.source)[1] or [cell.source]
                for number, region in enumerate(regions, 1):
                    yield Secret(f"the solution {name}/{meta['grade_id']} ({number})", region)
            for output in cell.get("outputs", []):
                text = _output_text(output)
                if text:
                    yield Secret(f"an output of {name}/{cell['id']}", text, written_by_code=True)
    for path in sorted(DESCRIPTIONS.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                yield Secret(f"the description {path.name}", ast.unparse(_WithoutSentences().visit(node)))
    for name in sorted({*QUESTIONS, *(path.stem for path in ANSWERS.glob("*.md"))}):
        variants = QUESTIONS[name].of_each_course() if name in QUESTIONS else []
        for answer in [answer for each in variants for answer in each.answers()] or answers_to(name):
            yield Secret(f"the answer {name}/{answer.name}", answer.source)


class _WithoutSentences(ast.NodeTransformer):
    """Leaves out texts of several words: what a mistake is called and means ships with the visible cases."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        sentence = isinstance(node.value, str) and " " in node.value
        return ast.Constant("") if sentence else node


def _output_text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    data = output.get("data", {})
    return str(data.get("image/png", "")[:4000] or data.get("text/plain", ""))


def _markers(bundle: Path) -> list[str]:
    """Marked regions that nbgrader should have removed."""
    problems = []
    for path in sorted(bundle.rglob("*.ipynb")):
        for cell in notebooks.read(path).cells:
            if match := _MARKERS.search(cell.source):
                problems.append(f"{path.relative_to(bundle)}, cell {cell['id']} holds the marker {match[0]}")
    return problems
