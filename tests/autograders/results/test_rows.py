"""A row never shows a score that is not the submission's: of an earlier attempt, or of a run that failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import MIXED, MixedClass, copy_course

from autograders.__main__ import main
from autograders.course import Course, released
from autograders.grading.journal import read_record, write_record
from autograders.grading.states import State
from autograders.intake.notes import NotPlaced, update_not_placed
from autograders.results.class_tables import write_csv, write_wide
from autograders.results.lms_export import canvas_export
from autograders.results.row import ScoreRow
from autograders.results.rows import rows
from autograders.tables import read_table

pytestmark = pytest.mark.slow


@pytest.fixture
def graded(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded mixed class, the test's own."""
    return copy_course(mixed_graded.course, tmp_path / "course")


def row_of(course: Course, student: str, assignment: str = MIXED) -> ScoreRow:
    (row,) = [row for row in rows(course, [assignment]) if row.student == student]
    return row


def remarks_of(course: Course, student: str) -> tuple[list[str], list[str]]:
    """What an export to Canvas changes, and says beside it; every question has a score."""
    from autograders.nbgrader.database import open_gradebook

    with open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("03a-p5", MIXED, MIXED, student)
        grade.manual_score, grade.needs_manual_grade = 1.0, False
        gradebook.db.commit()
    path = course.root / "canvas.csv"
    path.write_text(f"Student,ID,SIS Login ID,Section,{MIXED} (1)\nSomebody,1,{student},,\n", "utf-8")
    export = canvas_export(course, path, [MIXED])
    return [change.student for change in export.changes], export.remarks


def test_a_submission_that_failed_shows_and_exports_no_score(graded: Course) -> None:
    record = read_record(graded, MIXED, "right")
    assert record is not None
    assert row_of(graded, "right").score == 16
    assert remarks_of(graded, "right")[0] == ["right"]
    record.state = State.FAILED
    write_record(graded, record)
    row = row_of(graded, "right")
    assert (row.state, row.score, row.auto_score) == ("failed", None, None)
    changed, remarks = remarks_of(graded, "right")
    assert changed == []
    assert any(line.startswith("without a score") and "right" in line for line in remarks)
    assert main(["feedback", "--quiet", "--course", str(graded.root), "--assignment", MIXED, "--student", "right"]) == 0
    page = graded.notebook("feedback", MIXED, "right").with_suffix(".html").read_text("utf-8")
    assert "<strong>failed</strong>" in page
    assert "17 of 18 points" not in page


def test_an_attempt_that_nobody_graded_hides_the_score_of_the_one_before(graded: Course) -> None:
    submitted = graded.notebook("submitted", MIXED, "right")
    nb = json.loads(submitted.read_text("utf-8"))
    submitted.write_text(json.dumps({**nb, "metadata": {**nb["metadata"], "attempt": 2}}), "utf-8")
    row = row_of(graded, "right")
    assert (row.state, row.score) == ("not graded", None)
    assert row.reason == "handed in again, not graded yet: run `autograde grade`"
    changed, remarks = remarks_of(graded, "right")
    assert changed == []
    assert "handed in and not graded yet, left as they are: right" in remarks
    write_csv(graded, [MIXED])
    questions = [line for line in read_table(graded.root / "questions.csv") if line["student"] == "right"]
    assert {(line["state"], line["points"]) for line in questions} == {("not graded", "")}
    # A course whose submissions were moved away after grading keeps its scores.
    submitted.unlink()
    submitted.parent.rmdir()
    assert row_of(graded, "right").score is not None


def test_a_guest_has_a_row_for_every_assignment_and_the_wide_table_its_cells(course: Course) -> None:
    """Somebody who is on no roster handed in one of two assignments."""
    course.roster.write_text("id\nada\n", "utf-8")
    first, second = released(course)[:2]
    submitted = course.notebook("submitted", first, "guest")
    submitted.parent.mkdir(parents=True)
    submitted.write_bytes(course.notebook("release", first).read_bytes())
    student_rows = write_csv(course, [first, second])
    assert [(row.student, row.assignment, str(row.state)) for row in student_rows] == [
        *(("ada", first, "missing"), ("guest", first, "not graded")),
        *(("ada", second, "missing"), ("guest", second, "missing")),
    ]
    lines = read_table(write_wide(course, student_rows))
    assert [line[f"{name}: state"] for line in lines for name in (first, second)] == [
        *("missing", "missing"),
        *("not graded", "missing"),
    ]


def test_a_file_that_was_not_placed_is_named_where_its_student_is_known(course: Course) -> None:
    course.roster.write_text("id\nada\nbob\n", "utf-8")
    first, second = released(course)[:2]
    entries = [
        NotPlaced("x.ipynb", "0" * 64, "it holds no notebook of this course", student="ada"),
        NotPlaced("y.ipynb", "1" * 64, "the file is empty", student="bob", assignment=second),
    ]
    update_not_placed(course, entries, lambda entry: False)
    told = {(row.student, row.assignment): (str(row.state), row.reason) for row in rows(course, [first, second])}
    nothing = "nothing was handed in"
    ada = ("not placed", f"{nothing} for this assignment; not placed: x.ipynb: it holds no notebook of this course")
    bob = ("not placed", f"{nothing} for this assignment; not placed: y.ipynb: the file is empty")
    assert told == {
        ("ada", first): ada,
        ("ada", second): ada,
        ("bob", first): ("missing", nothing),
        ("bob", second): bob,
    }
