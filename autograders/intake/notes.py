"""What `autograde collect` notes about each student's files, and about files without a known student."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from ..course import Course, CourseError
from ..files import write_text_atomically
from ..plain_text import plain
from .reading.submission_limits import MAX_BYTES


@dataclass(frozen=True)
class UngradedFile:
    """A file that was handed in and is not graded, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class HeldNotebook:
    """A notebook that may be another student's, or one of several: a person decides with `autograde confirm`."""

    file: str
    digest: str
    origin: str
    """Who says whose it is, and the name in it."""
    time: str = ""
    """When it says that it was handed in; "" when it does not."""
    late: str = ""


@dataclass
class Note:
    """What is known of one student's files for one assignment. The first four are of the notebook that counts."""

    file: str = ""
    digest: str = ""
    origin: str = ""
    late: str = ""
    """Who marks it as late (`Canvas`, `Moodle`, `the mapping`); "" when nobody does."""
    notes: list[str] = field(default_factory=list)
    others: list[UngradedFile] = field(default_factory=list)
    held: list[HeldNotebook] = field(default_factory=list)
    why_held: str = ""
    rejected: list[str] = field(default_factory=list)
    """Digests of notebooks that a person did not choose."""

    @property
    def is_damaged(self) -> bool:
        """Whether the note cannot be read: what it said of the student's files is unknown, so a person decides."""
        return any(not notebook.digest for notebook in self.held)

    @property
    def remarks(self) -> list[str]:
        """Everything to report beside the submission's state."""
        return [*self.notes, *(f"also handed in, not graded: {file.file}: {file.reason}" for file in self.others)]


def note_path(course: Course, assignment: str, student: str) -> Path:
    """Where the note of a student's files lies."""
    return course.root / "collected" / assignment / f"{student}.json"


def held_path(course: Course, assignment: str, student: str, held: HeldNotebook) -> Path:
    """Where a notebook is kept while it waits for a person."""
    return course.root / "collected" / assignment / student / f"{held.digest[:12]}.ipynb"


def read_note(course: Course, assignment: str, student: str) -> Note | None:
    """The note, or None when nothing was collected. A damaged one waits for a person: it must not stop the others."""
    path = note_path(course, assignment, student)
    try:
        content = json.loads(path.read_text("utf-8"))
        values = _known_fields(Note, content)
        values["others"] = [UngradedFile(**file) for file in values.get("others", [])]
        values["held"] = [HeldNotebook(**notebook) for notebook in values.get("held", [])]
        return Note(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        place = path.relative_to(course.root)
        why = f"{place} is damaged ({type(error).__name__}): remove it and collect the student's files again."
        return Note(held=[HeldNotebook(str(place), "", "the course's folder")], why_held=why)


def _known_fields(kind: Any, content: dict[str, Any]) -> dict[str, Any]:
    """What this version knows of an entry: another may have written fewer fields, or more."""
    return {entry.name: content[entry.name] for entry in fields(kind) if entry.name in content}


def write_note(course: Course, assignment: str, student: str, note: Note) -> None:
    """Write the note, whole or not at all."""
    _write(note_path(course, assignment, student), asdict(note))


def noted_students(course: Course, assignment: str) -> list[str]:
    """Everybody of whom something was collected, in order."""
    return sorted(path.stem for path in (course.root / "collected" / assignment).glob("*.json"))


def note_in_force(course: Course, assignment: str, student: str) -> Note | None:
    """The note, unless the notebook that it is about was replaced by hand."""
    note = read_note(course, assignment, student)
    if note is None or not note.digest:
        return note
    digest = digest_at(course.notebook("submitted", assignment, student))
    return note if digest == note.digest or (digest is None and note.held) else None


def is_waiting(course: Course, assignment: str, student: str) -> bool:
    """Whether a person has to decide which of a student's files counts."""
    note = read_note(course, assignment, student)
    return note is not None and bool(note.held)


def digest_of(content: bytes) -> str:
    """The digest that notes have of a file."""
    return hashlib.sha256(content).hexdigest()


def digest_at(path: Path) -> str | None:
    """The digest of a file, or of its size where it is too large to be graded; None where no file can be read."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        with path.open("rb") as file:
            if status.st_size > MAX_BYTES:
                return digest_of(f"{status.st_size} bytes".encode())
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@dataclass(frozen=True)
class NotPlaced:
    """A file whose student or assignment is unknown, and the reason."""

    file: str
    digest: str
    """"" when nothing of the file is kept."""
    reason: str
    student: str | None = None
    assignment: str | None = None
    """Whose it is, and for which assignment, where that is known all the same."""

    def concerns(self, student: str) -> bool:
        """Whether it is this student's, or lay in a folder of that name."""
        return self.student == student or student in PurePosixPath(self.file).parts


def read_not_placed(course: Course) -> list[NotPlaced]:
    """The files without a known student or assignment, by name."""
    path = _not_placed_path(course)
    try:
        return [NotPlaced(**_known_fields(NotPlaced, entry)) for entry in json.loads(path.read_text("utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, AttributeError) as error:
        raise CourseError(f"{path} is damaged ({error}): remove it and collect the files again.") from None


def update_not_placed(course: Course, not_placed: Sequence[NotPlaced], is_settled: Callable[[NotPlaced], bool]) -> None:
    """Enter files that could not be placed; those that are settled meanwhile are no longer among them."""
    new = {(entry.file, entry.digest) for entry in not_placed}
    entries = [entry for entry in read_not_placed(course) if (entry.file, entry.digest) not in new]
    kept = [entry for entry in entries if not is_settled(entry)]
    entries = sorted([*kept, *not_placed], key=lambda entry: (entry.file, entry.digest))
    if entries or _not_placed_path(course).exists():
        _write(_not_placed_path(course), [asdict(entry) for entry in entries])


def _not_placed_path(course: Course) -> Path:
    return course.root / "collected" / "not-placed.json"


def _write(path: Path, content: Any) -> None:
    write_text_atomically(path, json.dumps(_plain(content), ensure_ascii=False, indent=1) + "\n")


def _plain(content: Any) -> Any:
    """The same with no text that a terminal would obey, or that has no form in UTF-8."""
    if isinstance(content, list):
        return [_plain(entry) for entry in content]
    if isinstance(content, dict):
        return {name: _plain(value) for name, value in content.items()}
    return plain(content, lines=True) if isinstance(content, str) else content
