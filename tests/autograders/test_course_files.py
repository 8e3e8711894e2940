"""What is damaged or missing in a course's folder is said in a line, before anybody is set aside for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import autograde

from autograders.course import Course, ReleaseError
from autograders.grading.journal import Record, write_record
from autograders.grading.states import State
from autograders.release import release as release_module

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"


@pytest.fixture
def handed_in(course: Course) -> Course:
    """A course with one submission."""
    path = course.notebook("submitted", FIRST, "ada")
    path.parent.mkdir(parents=True)
    path.write_bytes(course.notebook("release", FIRST).read_bytes())
    return course


def spoil(course: Course, name: str, content: bytes | None) -> None:
    path = course.root / name
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("command", "name", "content", "message"),
    [
        ("grade", "secret", None, "put the course's secret back"),
        ("grade", "secret", b"zz", "not a secret"),
        ("grade", "sets.json", b"[]", "cannot be read"),
        ("grade", "gradebook.db", None, "holds no gradebook"),
        ("grade", "gradebook.db", b"not a database at all" * 99, "cannot be read"),
        ("gradebook", "gradebook.db", None, "holds no gradebook"),
        ("gradebook", "gradebook.db", b"x" * 2000, "cannot be read"),
        ("gradebook", "roster.csv", "id,name\nzoë,Z\n".encode("latin-1"), "not UTF-8"),
        ("gradebook", "roster.csv", b"name\nada\n", "no column 'id'"),
        ("feedback", f"journal/{FIRST}/ada.json", b"\xff", "ada.json is damaged"),
    ],
)
def test_a_damaged_course_is_told_in_a_line_and_left_as_it_is(
    handed_in: Course, command, name, content, message
) -> None:
    spoil(handed_in, name, content)
    before = contents(handed_in)
    done = autograde(command, *(["--quiet"] if command != "gradebook" else []), course=handed_in)
    assert done.code == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert contents(handed_in) == before


def contents(course: Course) -> dict[Path, bytes]:
    """Every file of a course but the lock."""
    return {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file() and path.name != ".writer"}


@pytest.mark.parametrize("command", ["release", "grade", "gradebook", "feedback", "simulate"])
def test_a_course_that_is_a_file_is_told_in_a_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "course").write_text("x")
    done = autograde(command, "--course", tmp_path / "course")
    assert "Traceback" not in done.err
    assert done.code == 1 or "0 pages" in done.out
    assert (tmp_path / "course").read_text() == "x"


@pytest.mark.parametrize("place", ["course", "course/within"])
def test_a_release_that_has_no_place_is_refused_before_the_answers_are_tried(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_module, "verify_on", pytest.fail)
    (tmp_path / "course").write_text("x")
    with pytest.raises(ReleaseError, match=r"course is a file, and a course is a folder"):
        release_module.release(Course(tmp_path / place), [FIRST])


def test_a_record_survives_and_an_earlier_one_is_kept_in_short(tmp_path: Path) -> None:
    course = Course(tmp_path)
    verdict = {"points": 3.0}
    first = Record("ada", FIRST, "d1", "v", State.GRADED, questions={"q": verdict})
    write_record(course, first)
    write_record(course, first)
    second = Record("ada", FIRST, "d2", "v", State.GRADED)
    write_record(course, second)
    from autograders.grading.journal import read_record

    found = read_record(course, FIRST, "ada")
    assert found is not None
    assert found.digest == "d2"
    assert found.earlier == [{"digest": "d1", "version": "v", "state": State.GRADED, "points": {"q": 3.0}}]
    assert found.is_of("d2", "v")
    assert not found.is_of("d1", "v")
    assert not found.is_of("d2", "w")
