"""`autograde feedback` makes several pages at a time, and again only those whose inputs have changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import MIXED, MixedClass, copy_course
from nbgrader.api import Gradebook

from autograders.course import Course
from autograders.results.feedback import write_feedback

pytestmark = pytest.mark.slow
STUDENTS = ("right", "wrong", "syntax", "killer", "forger", "truncated")


@pytest.fixture(scope="module")
def paged(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The mixed class with its pages, made two at a time."""
    course = copy_course(mixed_graded.course, tmp_path_factory.mktemp("paged") / "course")
    assert write_feedback(course, [MIXED], progress=False, workers=2).written == len(STUDENTS)
    return course


@pytest.fixture
def again(paged: Course, tmp_path: Path) -> Course:
    """A copy that a test may change."""
    return copy_course(paged, tmp_path / "course")


def page(course: Course, student: str) -> Path:
    return course.notebook("feedback", MIXED, student).with_suffix(".html")


def test_every_page_is_its_students_own_and_the_same_as_without_workers(paged: Course, tmp_path: Path) -> None:
    alone = copy_course(paged, tmp_path / "course")
    for student in STUDENTS:
        page(alone, student).unlink()
    write_feedback(alone, [MIXED], progress=False)
    for student in STUDENTS:
        assert page(alone, student).read_text("utf-8") == page(paged, student).read_text("utf-8")
    assert len({page(paged, student).read_text("utf-8") for student in STUDENTS}) == len(STUDENTS)
    assert not paged.staged.exists()


def test_pages_that_exist_are_not_made_again(again: Course) -> None:
    pages = write_feedback(again, [MIXED], progress=False)
    assert pages.written == 0
    assert sorted(path.parts[-3] for path in pages.paths) == sorted(STUDENTS)


def give_points(course: Course) -> None:
    with Gradebook(course.gradebook) as gradebook:
        gradebook.find_grade("03a-p5", MIXED, MIXED, "right").manual_score = 1.5
        gradebook.db.commit()


def comment(course: Course) -> None:
    with Gradebook(course.gradebook) as gradebook:
        gradebook.find_comment("03a-p5", MIXED, MIXED, "right").manual_comment = "Well said."
        gradebook.db.commit()


def lose_the_page(course: Course) -> None:
    page(course, "right").unlink()


def cut_the_page(course: Course) -> None:
    page(course, "right").write_text(page(course, "right").read_text("utf-8")[:-200], "utf-8")


def grade_again(course: Course) -> None:
    path = course.notebook("autograded", MIXED, "right")
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")


@pytest.mark.parametrize("change", [give_points, comment, lose_the_page, cut_the_page, grade_again])
def test_a_page_whose_inputs_changed_is_made_again_and_no_other(again: Course, change: object) -> None:
    change(again)  # type: ignore[operator]
    before = {student: page(again, student).stat().st_mtime_ns for student in STUDENTS[1:]}
    assert write_feedback(again, [MIXED], progress=False, workers=2).written == 1
    assert {student: page(again, student).stat().st_mtime_ns for student in STUDENTS[1:]} == before
    assert write_feedback(again, [MIXED], progress=False).written == 0
    if change is comment:
        assert "Well said." in page(again, "right").read_text("utf-8")
