"""Finds and reads what a student handed in; says what was repaired, or why it cannot be graded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from . import notebooks
from .course import Course
from .decoding import Unreadable
from .files import write_text_atomically
from .folders import Archive, RefusedArchive, entries, is_folder, kind_of, read_file
from .reading import ReadNotebook, read_notebook
from .rebuild import related
from .times import TIMESTAMP

__all__ = ["Received", "Unreadable", "receive", "stage", "submission_digest", "submitted_students"]


@dataclass(frozen=True)
class Received:
    """A submission that can be graded: its notebook in plain form, and what was repaired or left out."""

    notebook: NotebookNode
    notes: tuple[str, ...]


def submitted_students(course: Course, assignment: str) -> list[str]:
    """The students who have a folder for this assignment (or something in its place), in order."""
    return sorted(path.parent.name for path in course.step("submitted", "").glob(f"*/{assignment}"))


def submission_digest(course: Course, assignment: str, student: str) -> str | None:
    """A digest of everything that a submission's score depends on, or None when there is nothing.

    The notebooks' bytes, the names of the other files and the time of handing in: a change of any is another attempt.
    """
    folder = course.step("submitted", student, assignment)
    if not is_folder(folder):
        return None
    exact = folder / f"{assignment}.ipynb"
    names = [entry.name for entry in entries(folder) if entry.problem is None]
    if names == [exact.name]:
        return hashlib.sha256(exact.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for name in names:
        content = (folder / name).read_bytes() if _is_notebook(name) or name == TIMESTAMP else b""
        digest.update(f"{name}\x1f{hashlib.sha256(content).hexdigest()}\x1e".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def receive(course: Course, assignment: str, student: str) -> Received:
    """Find a submission's notebook, whatever it is called, and read it. Raises Unreadable with the reason.

    The file with the assignment's name counts if it is readable and of this assignment; else the one other notebook in
    the folder, its subfolders or a zip archive in it that has the assignment's cells.
    """
    folder = course.step("submitted", student, assignment)
    for path in (folder.parent, folder):
        if not path.is_dir() or path.is_symlink():
            kind = kind_of(path) if path.is_symlink() or path.exists() else "missing"
            raise Unreadable(f"the submission's folder is {kind or 'a file'}: hand in the notebook itself")
    found = _contents(folder)
    release = notebooks.read(course.notebook("release", assignment))
    read: dict[str, ReadNotebook] = {}
    reasons: dict[str, str] = {}
    for name in sorted(found.notebooks, key=lambda name: (name != f"{assignment}.ipynb", name)):
        try:
            candidate = read_notebook(found.notebooks[name])
        except Unreadable as error:
            reasons[name] = str(error)
            continue
        if related(candidate.notebook, release):
            read[name] = candidate
        else:
            reasons[name] = f"it is another notebook: none of its cells is of {assignment}"
    name = _choose(read, reasons, found, assignment)
    notes = list(read[name].notes)
    if name != f"{assignment}.ipynb":
        notes.append(f"the notebook is called {name}; it was found by its cells")
    others = sorted({*read, *reasons} - {name})
    if others:
        notes.append(f"there are other notebooks, not graded: {', '.join(others)[:200]}")
    return Received(read[name].notebook, tuple(notes))


def stage(course: Course, assignment: str, student: str) -> tuple[str, ...]:
    """Put what `receive` finds where nbgrader reads it, under the name that it expects; returns the notes.

    nbgrader's own reading meets nothing but this file: no link, no other file, no other format.
    """
    received = receive(course, assignment, student)
    write_text_atomically(course.notebook("received", assignment, student), notebooks.as_text(received.notebook))
    return (*received.notes, *_collected_notes(course, assignment, student))


def _choose(read: dict[str, ReadNotebook], reasons: dict[str, str], found: _Found, assignment: str) -> str:
    """The name of the notebook that counts. Raises Unreadable when there is none, or no telling."""
    exact = f"{assignment}.ipynb"
    if exact in read or len(read) == 1:
        return exact if exact in read else next(iter(read))
    if not read:
        if len(reasons) == 1:
            ((name, reason),) = reasons.items()
            raise Unreadable(reason if name == exact else f"{name}: {reason}")
        if reasons:
            raise Unreadable("; ".join(f"{name}: {reason}" for name, reason in reasons.items())[:500])
        beside = ", ".join(found.others[:10])
        detail = "; ".join([*([f"the folder holds {beside}"] if beside else []), *found.problems])
        raise Unreadable(f"no notebook {exact}" + (f"; {detail}" if detail else ""))
    contents = {json.dumps([cell.source for cell in candidate.notebook.cells]) for candidate in read.values()}
    if len(contents) > 1:
        raise Unreadable(f"{len(read)} notebooks are {assignment} ({', '.join(sorted(read))}): which one counts?")
    return min(read)


@dataclass(frozen=True)
class _Found:
    notebooks: dict[str, bytes]
    others: list[str]
    problems: list[str]


def _contents(folder: Path) -> _Found:
    """The notebooks in a folder and, where there is none, in the zip archives in it; what is beside them."""
    found = _Found({}, [], [])
    for entry in entries(folder):
        if entry.problem is not None:
            found.problems.append(f"{entry.name}: {entry.problem}")
        elif _is_notebook(entry.name):
            try:
                found.notebooks[entry.name] = read_file(folder / entry.name)
            except (OSError, RefusedArchive) as error:
                found.problems.append(f"{entry.name}: {error}")
        elif entry.name != TIMESTAMP:
            found.others.append(entry.name)
    if not found.notebooks:
        for name in [name for name in found.others if name.lower().endswith(".zip")]:
            try:
                archive = Archive(folder / name)
                for entry in archive.entries():
                    if _is_notebook(entry.name):
                        found.notebooks[f"{name}/{entry.name}"] = archive.read(entry.name)
            except RefusedArchive as error:
                found.problems.append(f"{name}: {error}")
    return found


def _is_notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb")


def _collected_notes(course: Course, assignment: str, student: str) -> tuple[str, ...]:
    """What `autograde collect` noted when it took this file."""
    path = course.root / "collected" / assignment / f"{student}.json"
    target = course.notebook("submitted", assignment, student)
    if not path.is_file() or not target.is_file():
        return ()
    record = json.loads(path.read_text("utf-8"))
    same = record["digest"] == hashlib.sha256(target.read_bytes()).hexdigest()
    return tuple(record["notes"]) if same else ()
