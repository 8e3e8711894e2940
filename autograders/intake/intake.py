"""Finds and reads what a student handed in; says what was repaired, or why it cannot be graded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nbformat import NotebookNode

from .. import notebooks
from ..course import Course
from ..files import write_text_atomically
from ..plain_text import plain
from ..reasons import Kind, Reason
from .copies import most_complete
from .notes import digest_at, digest_of, note_in_force
from .reading.archives import Archive, RefusedArchive, entries, is_folder, kind_of, read_file
from .reading.decoding import Unreadable
from .reading.identify import has_cells_of, stamp_of
from .reading.limited_reading import read_notebook, related
from .reading.reading import ReadNotebook
from .reading.submission_limits import MAX_NOTEBOOKS
from .times import TIMESTAMP

__all__ = ["Received", "Unreadable", "receive", "stage", "submission_digest", "submitted_students"]

_NOTHING = digest_of(b"")
"""The digest of a file whose content does not count, or that cannot be read."""


@dataclass(frozen=True)
class Received:
    """A submission that can be graded: its notebook in plain form, and what was repaired or left out."""

    notebook: NotebookNode
    notes: tuple[str, ...]


def submitted_students(course: Course, assignment: str) -> list[str]:
    """The students who have a folder for this assignment (or something in its place), in order."""
    return sorted(path.name for path in course.step("submitted", "").glob("*") if _is_there(path / assignment))


def _is_there(path: Path) -> bool:
    """Whether something is at a path, also where it may not be looked at: it is not missing then."""
    try:
        path.lstat()
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def submission_digest(course: Course, assignment: str, student: str) -> str | None:
    """A digest of everything that a submission's score depends on, or None when there is nothing.

    It covers the notebooks' bytes, the names of the other files, the time of handing in and a mark of being late. If
    any of these changes, it is another attempt.
    """
    folder = course.step("submitted", student, assignment)
    if not is_folder(folder):
        return None
    exact = folder / f"{assignment}.ipynb"
    note = note_in_force(course, assignment, student)
    marked = note.late if note is not None else ""
    names = [entry.name for entry in entries(folder) if entry.problem is None]
    # The usual case, a notebook alone: the digest of its bytes, which `sha256sum` gives too.
    if names == [exact.name] and not marked:
        return digest_at(exact) or _NOTHING
    digest = hashlib.sha256(marked.encode())
    for name in names:
        counts = _is_notebook(name) or name == TIMESTAMP
        content = (digest_at(folder / name) if counts else None) or _NOTHING
        digest.update(f"{name}\x1f{content}\x1e".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def receive(course: Course, assignment: str, student: str) -> Received:
    """Find a submission's notebook, whatever it is called, and read it. Raises Unreadable with the reason.

    The file with the assignment's name counts if it is readable and of this assignment; else the one other notebook in
    the folder, its subfolders or a zip archive in it that has the assignment's cells.
    """
    if student != plain(student):
        raise Unreadable(f"the folder of {plain(student)} has a name that is no student id: rename it, grade again")
    folder = course.step("submitted", student, assignment)
    # Not through a link, which could lead to another student's submission.
    for path in (folder.parent, folder):
        if not path.is_dir() or path.is_symlink():
            kind = kind_of(path) if path.is_symlink() or path.exists() else "missing"
            raise Unreadable(f"the submission's folder is {kind or 'a file'}: hand in the notebook itself")
    contents = _contents(folder)
    release = notebooks.read(course.notebook("release", assignment))
    readable: dict[str, ReadNotebook] = {}
    reasons: dict[str, Reason] = {}
    not_of_assignment = f"it is another notebook: none of its cells is of {assignment}"
    certain: set[str] = set()
    # The expected name first, so that it is never among those beyond the limit.
    candidates = sorted(contents.notebooks, key=lambda name: (name != f"{assignment}.ipynb", name))
    for name in candidates[:MAX_NOTEBOOKS]:
        try:
            candidate = read_notebook(contents.notebooks[name]())
            of_cells = has_cells_of(candidate.notebook, release)
            is_related = of_cells or related(candidate.notebook, release)
        except (Unreadable, RefusedArchive, OSError) as error:
            reasons[name] = error.reasons[0] if isinstance(error, Unreadable) else Reason(Kind.OTHER, str(error))
            continue
        # Functions of the right names prove nothing where the stamp names another assignment.
        if of_cells or (is_related and stamp_of(candidate.notebook) in ("", assignment)):
            readable[name] = candidate
            certain |= {name} if of_cells else set()
        else:
            reasons[name] = Reason(Kind.ANOTHER_NOTEBOOK, not_of_assignment)
    # Beside a notebook with released cells, one that only defines functions of the same names does not count.
    for name in set(readable) - certain if certain else ():
        reasons[name] = Reason(Kind.ANOTHER_NOTEBOOK, not_of_assignment)
        del readable[name]
    if len(candidates) > MAX_NOTEBOOKS:
        contents.problems.append(f"{len(candidates):,} notebooks, of which {MAX_NOTEBOOKS} are looked at")
    name = _choose(readable, reasons, contents, assignment, release)
    notes = list(readable[name].notes)
    if name != f"{assignment}.ipynb":
        notes.append(f"the notebook is called {name}; it was found by its cells")
    other_notebooks = sorted({*candidates} - {name})
    if other_notebooks:
        notes.append(f"there are other notebooks, not graded: {', '.join(other_notebooks)[:200]}")
    return Received(readable[name].notebook, tuple(notes))


def stage(course: Course, assignment: str, student: str) -> tuple[str, ...]:
    """Put what `receive` finds where nbgrader reads it, under the name that it expects; returns the notes.

    nbgrader's own reading meets nothing but this file: no link, no other file, no other format.
    """
    note = note_in_force(course, assignment, student)
    remarks = note.remarks if note is not None else []
    try:
        received = receive(course, assignment, student)
    except Unreadable as error:
        (reason,) = error.reasons
        raise Unreadable(reason.text, reason.kind, reason.detail, remarks) from None
    write_text_atomically(course.notebook("received", assignment, student), notebooks.as_text(received.notebook))
    return (*received.notes, *remarks)


def _choose(
    readable: dict[str, ReadNotebook],
    reasons: dict[str, Reason],
    contents: _Contents,
    assignment: str,
    release: NotebookNode,
) -> str:
    """The name of the notebook that counts. Raises Unreadable when there is none, or when it is unclear which."""
    exact = f"{assignment}.ipynb"
    if not readable:
        if len(reasons) == 1:
            ((name, reason),) = reasons.items()
            text = reason.text if name == exact else f"{name}: {reason.text}"
            raise Unreadable(text, reason.kind, reason.detail)
        if reasons:
            problems = [*(f"{name}: {reason.text}" for name, reason in reasons.items()), *contents.problems]
            raise Unreadable("; ".join(problems)[:500])
        beside = ", ".join(contents.other_files[:10])
        detail = "; ".join([*([f"the folder holds {beside}"] if beside else []), *contents.problems])
        raise Unreadable(f"no notebook {exact}" + (f"; {detail}" if detail else ""), Kind.NO_NOTEBOOK)
    chosen = most_complete({name: candidate.notebook for name, candidate in readable.items()}, release, exact)
    if chosen is None:
        text = f"{len(readable)} notebooks are {assignment} ({', '.join(sorted(readable))}): which one counts?"
        raise Unreadable(text, Kind.SEVERAL_NOTEBOOKS, str(len(readable)))
    return chosen


@dataclass(frozen=True)
class _Contents:
    notebooks: dict[str, Callable[[], bytes]]
    """How to read each: only one at a time is in memory."""
    other_files: list[str]
    problems: list[str]


def _contents(folder: Path) -> _Contents:
    """The notebooks in a folder or, if it has none, in its zip archives; and the other files in it."""
    contents = _Contents({}, [], [])
    for entry in entries(folder):
        if entry.problem is not None:
            contents.problems.append(f"{entry.name}: {entry.problem}")
        elif _is_notebook(entry.name):
            contents.notebooks[entry.name] = partial(read_file, folder / entry.name)
        elif entry.name != TIMESTAMP:
            contents.other_files.append(entry.name)
    if not contents.notebooks:
        for name in [name for name in contents.other_files if name.lower().endswith(".zip")]:
            try:
                archive = Archive(folder / name)
                for entry in archive.entries():
                    if entry.problem is not None:
                        contents.problems.append(f"{name}: {entry.name}: {entry.problem}")
                    elif _is_notebook(entry.name):
                        contents.notebooks[f"{name}/{entry.name}"] = partial(archive.read, entry.name)
            except RefusedArchive as error:
                contents.problems.append(f"{name}: {error}")
    return contents


def _is_notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb")
