"""A due date that changes changes what being late costs, for everybody and with any plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import MIXED, MixedClass, copy_course
from nbgrader.plugins import BasePlugin
from traitlets.config import Config

from autograders.__main__ import main
from autograders.course import Course
from autograders.nbgrader import configuration
from autograders.nbgrader.database import open_gradebook
from autograders.results.rows import rows

pytestmark = pytest.mark.slow


class PointADay(BasePlugin):
    """A course's own rule, which assignments.csv has no word for."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        return total_seconds_late / 86_400


def own_settings() -> Config:
    return Config({"LatePenalties": {"plugin_class": PointADay}})


def due(course: Course, time: str, policy: str) -> None:
    (course.root / "assignments.csv").write_text(f"assignment,due,late_penalty\n{MIXED},{time} UTC,{policy}\n", "utf-8")


def grade(course: Course) -> None:
    assert main(["grade", "--quiet", "--workers", "1", "--course", str(course.root), "--assignment", MIXED]) == 3


@pytest.fixture
def course(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded mixed class, in which two are late and the others have no time."""
    course = copy_course(mixed_graded.course, tmp_path / "course")
    with open_gradebook(course) as gradebook:
        for student, time in (("right", "2026-03-03 12:00:00"), ("wrong", "2026-03-02 12:00:00")):
            gradebook.update_or_create_submission(MIXED, student, timestamp=time)
    return course


def told(course: Course, student: str) -> tuple[str, float | None, str]:
    (row,) = [row for row in rows(course, [MIXED]) if row.student == student]
    return row.state, row.score, row.reason


def test_who_is_no_longer_late_loses_nothing_and_who_is_late_now_loses_it(course: Course) -> None:
    due(course, "2026-03-01 12:00", "zero")
    grade(course)
    assert told(course, "right") == ("late", 0, "handed in 2 d after the due date, 16 points taken off")
    assert told(course, "wrong") == ("late", 0, "handed in 1 d after the due date, 8 points taken off")
    due(course, "2026-03-02 12:00", "zero")
    assert told(course, "right") == ("late", 0, "handed in 1 d after the due date, 16 points taken off")
    assert told(course, "wrong") == ("graded", 8, "")
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    page = course.notebook("feedback", MIXED, "wrong").with_suffix(".html").read_text("utf-8")
    assert "<strong>8 of 18 points so far" in page
    due(course, "2026-03-02 12:00", "none")
    assert told(course, "right") == ("late", 16, "handed in 1 d after the due date")
    due(course, "2026-03-01 12:00", "zero")
    assert told(course, "wrong") == ("late", 0, "handed in 1 d after the due date, 8 points taken off")
    # The formgrader reads nbgrader's own numbers: they follow when the next grading run begins.
    due(course, "2026-03-02 12:00", "zero")
    grade(course)
    with open_gradebook(course) as gradebook:
        penalties = [
            gradebook.find_submission(MIXED, student).late_submission_penalty for student in ("right", "wrong")
        ]
    assert penalties == [16, 0]


def test_a_plugin_of_the_course_is_asked_again_for_everybody(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "own_settings", own_settings)
    due(course, "2026-03-01 12:00", "")
    grade(course)
    assert told(course, "right") == ("late", 14, "handed in 2 d after the due date, 2 points taken off")
    due(course, "2026-03-02 12:00", "")
    assert told(course, "wrong") == ("graded", 8, "")
    assert "`autograde grade` computes what being late costs" in told(course, "right")[2]
    grade(course)
    assert told(course, "right") == ("late", 15, "handed in 1 d after the due date, 1 points taken off")
    assert told(course, "wrong") == ("graded", 8, "")
    due(course, "2026-02-28 12:00", "")
    grade(course)
    assert [told(course, student)[1] for student in ("right", "wrong")] == [13, 6]
