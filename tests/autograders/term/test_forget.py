"""Who is forgotten takes nothing of anybody else along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograders.course import Course, CourseError
from autograders.files import write_text_atomically
from autograders.grading.journal import Record, write_record
from autograders.grading.states import State
from autograders.intake.notes import Note, NotPlaced, note_path, read_not_placed, write_note
from autograders.term.forget import forget

ASSIGNMENT = "03a-training-recipe"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


@pytest.mark.parametrize("student", [ASSIGNMENT, "ben.json", "ada"])
def test_an_id_that_is_the_name_of_another_file_deletes_its_own_only(course: Course, student: str) -> None:
    others = [each for each in ("ada", "ben") if each != student]
    for each in (*others, student):
        write_record(course, Record(each, ASSIGNMENT, "d", "v", State.UNREADABLE))
        write_note(course, ASSIGNMENT, each, Note("x"))
    for each in others:
        write_text_atomically(course.root / "collected" / ASSIGNMENT / each / "held.ipynb", "{}")
    forget(course, student, [ASSIGNMENT])
    for each in others:
        assert course.journal(ASSIGNMENT, each).exists()
        assert note_path(course, ASSIGNMENT, each).exists()
    left = {path.relative_to(course.root).as_posix() for path in course.root.rglob("*.*") if path.is_file()}
    assert left - {".writer"} == {
        f"{place}/{ASSIGNMENT}/{each}{end}"
        for each in others
        for place, end in (("journal", ".json"), ("collected", ".json"), ("collected", "/held.ipynb"))
    }


def test_only_a_students_own_files_without_a_place_are_forgotten(course: Course) -> None:
    entries = [
        {"file": "ada/x.ipynb", "digest": "", "reason": "empty"},
        {"file": "ben/y.ipynb", "digest": "", "reason": "a link"},
        {"file": "zoe/z.ipynb", "digest": "same", "reason": "of another course"},
        {"file": "ada/z.ipynb", "digest": "same", "reason": "of another course"},
        {"file": "final.ipynb", "digest": "d", "reason": "of another course", "student": "ada", "assignment": "03a"},
    ]
    write_text_atomically(course.root / "collected" / "not-placed.json", json.dumps(entries))
    write_record(course, Record("ada", ASSIGNMENT, "d", "v", State.UNREADABLE))
    forget(course, "ada", [ASSIGNMENT])
    assert read_not_placed(course) == [
        NotPlaced("ben/y.ipynb", "", "a link"),
        NotPlaced("zoe/z.ipynb", "same", "of another course"),
    ]


def test_a_table_that_cannot_be_read_is_told_before_anything_is_deleted(course: Course) -> None:
    write_record(course, Record("ada", ASSIGNMENT, "d", "v", State.UNREADABLE))
    course.roster.write_text('id,name\nada,"Ada\nben,Ben\n', "utf-8")
    with pytest.raises(CourseError, match="line 2"):
        forget(course, "ada", [ASSIGNMENT])
    assert course.journal(ASSIGNMENT, "ada").exists()
