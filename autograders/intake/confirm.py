"""Settles by a person's word which of several files is a student's."""

from __future__ import annotations

from dataclasses import dataclass

from ..course import Course, CourseError
from ..files import write_bytes_atomically, write_text_atomically
from ..writer import only_writer
from .notes import Note, digest_of, held_path, noted_students, read_note, write_note
from .times import TIMESTAMP, parse_time

IN_PLACE = 0
"""The number of the notebook that counts until now."""


@dataclass(frozen=True)
class Waiting:
    """A student's files that wait for a person; `note.held` are numbered from 1."""

    assignment: str
    student: str
    note: Note


def waiting(course: Course, assignments: list[str]) -> list[Waiting]:
    """Everything that waits, by assignment and student."""
    entries = [
        Waiting(assignment, student, note)
        for assignment in assignments
        for student in noted_students(course, assignment)
        if (note := read_note(course, assignment, student)) is not None and note.held
    ]
    return entries


def confirm(course: Course, assignment: str, student: str, number: int) -> str:
    """Let one of the files count, and keep the others in `attempts/`; returns what was done, in words.

    Args: the course, the assignment, the student, the file's number as `waiting` gives it; 0 keeps the
    notebook that counted until now, or chooses none of the files where there is no such notebook.

    Raises CourseError when nothing waits there, or there is no such file.
    """
    with only_writer(course, "confirm"):
        note = read_note(course, assignment, student)
        if note is None or not note.held:
            raise CourseError(f"nothing of {student} waits for {assignment}: `autograde confirm` lists what does.")
        target = course.notebook("submitted", assignment, student)
        if not IN_PLACE <= number <= len(note.held):
            raise CourseError(
                f"{student}, {assignment}: there is no file {number}; choose {IN_PLACE} to {len(note.held)}."
            )
        # Read before anything is written: `_put` replaces the notebook in place.
        contents = [held_path(course, assignment, student, held).read_bytes() for held in note.held]
        earlier = [target.read_bytes()] if target.is_file() else []
        if number != IN_PLACE:
            choice = note.held[number - 1]
            _put(course, assignment, student, contents.pop(number - 1), choice.time)
            note.file, note.digest, note.late = choice.file, choice.digest, choice.late
            contents += earlier
        for content in contents:
            # A copy of the notebook that counts is not another attempt.
            if digest_of(content) != note.digest:
                name = f"{digest_of(content)[:12]}.ipynb"
                write_bytes_atomically(course.root / "attempts" / student / assignment / name, content)
        if number == IN_PLACE and earlier:
            note.digest = digest_of(earlier[0])
        note.origin = next((held.origin for held in note.held if held.digest == note.digest), note.origin)
        # Collecting the same files again must not ask the same question again.
        note.rejected = sorted({*note.rejected, *(digest_of(content) for content in contents)} - {note.digest})
        held, note.held, note.why_held = note.held, [], ""
        none_counts = number == IN_PLACE and not earlier
        chosen_name = "none" if none_counts else note.file or "the one in place"
        note.notes = [*note.notes, f"of {len(held) + len(earlier)} files a person chose {chosen_name}"]
        write_note(course, assignment, student, note)
        # Last, so that a command that was killed can be repeated: until the note is written, the files are needed.
        for notebook in held:
            held_path(course, assignment, student, notebook).unlink(missing_ok=True)
        if none_counts:
            return "none of the files counts"
        return f"{note.file or 'the notebook in place'} counts"


def _put(course: Course, assignment: str, student: str, content: bytes, time: str) -> None:
    target = course.notebook("submitted", assignment, student)
    write_bytes_atomically(target, content)
    if parse_time(time) is not None:
        write_text_atomically(target.parent / TIMESTAMP, f"{time}\n")
    else:
        # The time of the notebook that was here before is not this one's.
        (target.parent / TIMESTAMP).unlink(missing_ok=True)
