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
        if note.is_damaged:
            raise CourseError(note.why_held)
        target = course.notebook("submitted", assignment, student)
        if not IN_PLACE <= number <= len(note.held):
            raise CourseError(
                f"{student}, {assignment}: there is no file {number}; choose {IN_PLACE} to {len(note.held)}."
            )
        held = [held_path(course, assignment, student, notebook).read_bytes() for notebook in note.held]
        in_place = [target.read_bytes()] if target.is_file() else []
        chosen = [held[number - 1]] if number != IN_PLACE else in_place
        counts = digest_of(chosen[0]) if chosen else ""
        # A copy of the notebook that counts is not another attempt.
        others = [content for content in [*held, *in_place] if digest_of(content) != counts]
        # First, so that the notebook in place is kept before another replaces it.
        for content in others:
            path = course.root / "attempts" / student / assignment / f"{digest_of(content)[:12]}.ipynb"
            write_bytes_atomically(path, content)
        if number != IN_PLACE:
            choice = note.held[number - 1]
            _put(course, assignment, student, chosen[0], choice.time)
            note.file, note.late = choice.file, choice.late
        note.digest = counts or note.digest
        note.origin = next((notebook.origin for notebook in note.held if notebook.digest == counts), note.origin)
        # Collecting the same files again must not ask the same question again.
        note.rejected = sorted({*note.rejected, *map(digest_of, others)} - {note.digest})
        settled, note.held, note.why_held = note.held, [], ""
        name = (note.file or "the notebook in place") if chosen else "none"
        note.notes = [*note.notes, f"of {len(held) + len(in_place)} files a person chose {name}"]
        write_note(course, assignment, student, note)
        # Last, so that a command that was killed can be repeated: until the note is written, the files are needed.
        for notebook in settled:
            held_path(course, assignment, student, notebook).unlink(missing_ok=True)
        return f"{name} counts" if chosen else "none of the files counts"


def _put(course: Course, assignment: str, student: str, content: bytes, time: str) -> None:
    target = course.notebook("submitted", assignment, student)
    write_bytes_atomically(target, content)
    if parse_time(time) is not None:
        write_text_atomically(target.parent / TIMESTAMP, f"{time}\n")
    else:
        # The time of the notebook that was here before is not this one's.
        (target.parent / TIMESTAMP).unlink(missing_ok=True)
