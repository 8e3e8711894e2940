"""Everybody has a row with a state and its reason: in the tables, on the page, in the exit code."""

from __future__ import annotations

import csv
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, ROOT, MixedClass, copy_course

from autograders.__main__ import main
from autograders.course import Course
from autograders.grading.states import MEANINGS, State, state_of
from autograders.nbgrader.database import open_gradebook
from autograders.questions.verdict import Verdict
from autograders.reasons import Kind, Reason
from autograders.results.class_tables import write_csv
from autograders.results.known_scores import question_points
from autograders.results.page_inputs import PageInputs

pytestmark = pytest.mark.slow

EXPECTED = {
    "right": ("graded", 16, ""),
    "wrong": ("graded", 8, ""),
    "syntax": ("partial", 8, "03a-clip: the test cell stopped with NameError"),
    "killer": ("crashed", None, "kernel died"),
    "forger": ("tampered", 0, "2 observations were published"),
    "truncated": ("unreadable", None, "not JSON"),
    "absent": ("missing", None, "nothing was handed in"),
}


@pytest.fixture
def course(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded mixed class, the test's own."""
    return copy_course(mixed_graded.course, tmp_path / "course")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("student", EXPECTED)
def test_everybody_has_a_row_with_state_and_reason(mixed_graded: MixedClass, student: str) -> None:
    state, score, reason = EXPECTED[student]
    (row,) = [line for line in table(mixed_graded.course.grades) if line["student"] == student]
    assert row["state"] == state
    assert reason in row["reason"]
    assert bool(row["reason"]) == (state != State.GRADED)
    if score is not None:
        assert float(row["score"]) == score
    elif state != State.CRASHED:
        assert row["score"] == ""
    if state not in (State.GRADED, "missing"):
        assert f"{student}, {MIXED}: " in mixed_graded.grading.out
        assert reason in mixed_graded.grading.out


def test_every_question_of_everybody_has_a_row_and_no_bare_zero(mixed_graded: MixedClass) -> None:
    found = table(mixed_graded.course.root / "questions.csv")
    questions = ("03a-accumulate", "03a-clip", "03a-p5")
    assert [(row["student"], row["question"]) for row in found] == [
        (student, question) for student in sorted(EXPECTED) for question in questions
    ]
    for row in found:
        assert row["state"] in {*MEANINGS, "waits for a person", "graded by hand"}
        if row["points"] in ("", "0.0") and row["state"] != "waits for a person":
            assert row["what happened"], row
    by_place = {(row["student"], row["question"]): row for row in found}
    assert by_place["syntax", "03a-clip"]["state"] == "partial"
    assert by_place["syntax", "03a-accumulate"]["state"] == "graded"
    assert by_place["wrong", "03a-clip"]["misconception"] == "per-parameter"
    assert by_place["right", "03a-p5"]["state"] == "waits for a person"
    assert by_place["truncated", "03a-clip"]["state"] == "unreadable"


def test_the_exit_code_tells_the_states_apart(mixed_graded: MixedClass, course: Course) -> None:
    assert mixed_graded.grading.code == 3
    place = ["--quiet", "--course", str(course.root), "--assignment", MIXED, "--student"]
    codes = {student: main(["grade", *place, student]) for student in EXPECTED}
    assert codes == {
        "right": 0, "wrong": 0, "syntax": 4, "killer": 4, "forger": 4, "truncated": 3, "absent": 0,
    }  # fmt: skip


def verdict(incident: Reason | None, misconception: str | None = None) -> dict[str, Any]:
    return {**Verdict("q", (), incident=incident).as_record(), "misconception": misconception}


def ended(reason: Reason, question: str | None = None) -> list[dict[str, Any]]:
    return [replace(reason, cell="cell 3", question=question).as_record()]


MALFORMED = Reason(Kind.MALFORMED, "malformed")
TOO_SLOW = Reason(Kind.OUT_OF_TIME, "too slow")
DIED = Reason(Kind.KERNEL_DIED, "it died")
STOPPED = Reason(Kind.KERNEL_STOPPED, "memory")
TOLD_TO_END = Reason(Kind.KERNEL_TOLD_TO_END, "exit")
ERROR = Reason(Kind.TEST_CELL_STOPPED, "the test cell stopped with E: out of time, the kernel died", "E")
TWICE = Reason(Kind.PUBLISHED_TWICE, "2 observations", "2")
UNKNOWN = Reason(Kind.OTHER, "the kernel died, says another checkout")


@pytest.mark.parametrize(
    ("verdicts", "incident", "state"),
    [
        ([verdict(None)], [], State.GRADED),
        ([verdict(None), verdict(MALFORMED)], [], State.PARTIAL),
        ([verdict(MALFORMED), verdict(TOO_SLOW)], [], State.OUT_OF_TIME),
        ([verdict(TOO_SLOW), verdict(None)], ended(DIED), State.CRASHED),
        ([verdict(TOO_SLOW), verdict(None)], ended(STOPPED), State.CRASHED),
        ([verdict(None)], ended(TOLD_TO_END), State.CRASHED),
        ([verdict(None), verdict(MALFORMED)], ended(TOO_SLOW), State.OUT_OF_TIME),
        ([verdict(TOO_SLOW), verdict(DIED)], [], State.CRASHED),
        ([verdict(STOPPED)], [], State.CRASHED),
        ([verdict(ERROR)], [], State.PARTIAL),
        ([verdict(UNKNOWN)], [], State.PARTIAL),
        ([verdict(DIED), verdict(TWICE, "forged")], ended(DIED), State.TAMPERED),
    ],
)
def test_the_worst_that_a_question_met_is_the_state(
    verdicts: list[dict[str, Any]], incident: list[dict[str, Any]], state: State
) -> None:
    found, reasons = state_of({f"q{number}": each for number, each in enumerate(verdicts)}, incident)
    assert found == state
    told = "; ".join(map(str, reasons))
    for each in verdicts:
        assert (each["incident"] or "") in told
    assert all(each["reason"] in told for each in incident)


def test_what_ended_a_kernel_is_told_once_with_its_cell() -> None:
    _, reasons = state_of({"q0": verdict(TOO_SLOW), "q1": verdict(TOO_SLOW)}, ended(TOO_SLOW, "q0"))
    assert list(map(str, reasons)) == ["cell 3: too slow", "q1: too slow"]


def test_a_record_without_kinds_keeps_its_sentences() -> None:
    old = {"cell": "cell 3", "reason": "the kernel died: x", "question": None}
    state, reasons = state_of({"q0": {"incident": "out of time: x", "misconception": None}}, [old])
    assert state == State.PARTIAL
    assert {reason.kind for reason in reasons} == {Kind.OTHER}
    assert list(map(str, reasons)) == ["cell 3: the kernel died: x", "q0: out of time: x"]


def test_a_late_submission_is_called_late_and_says_by_how_much(course: Course) -> None:
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(MIXED, duedate="2026-03-01 12:00:00")
        for student in ("right", "syntax"):
            gradebook.update_or_create_submission(MIXED, student, timestamp="2026-03-01 14:00:00")
    found = {row.student: row for row in write_csv(course, [MIXED])}
    assert (found["right"].state, found["right"].score) == ("late", 16)
    assert found["right"].reason == "handed in 2 h after the due date"
    assert found["syntax"].state == "partial"
    assert "NameError" in found["syntax"].reason
    assert found["syntax"].reason.endswith("handed in 2 h after the due date")
    assert found["wrong"].state == "graded"
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    page = course.notebook("feedback", MIXED, "right").with_suffix(".html").read_text("utf-8")
    assert "<strong>late</strong>" in page
    assert "handed in 2 h after the due date" in page


def test_a_person_s_points_do_not_count_where_late_means_zero(course: Course) -> None:
    """nbgrader takes the penalty while it grades, and a person gives points afterwards."""
    (course.root / "assignments.csv").write_text(
        f"assignment,due,late_penalty\n{MIXED},2026-03-01 12:00 UTC,zero\n", "utf-8"
    )
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(MIXED, duedate="2026-03-01 12:00:00")
        gradebook.update_or_create_submission(MIXED, "right", timestamp="2026-03-01 14:00:00")
        for student in ("right", "wrong"):
            gradebook.find_grade("03a-p5", MIXED, MIXED, student).manual_score = 1.5
        gradebook.db.commit()
    scores = {row.student: row.score for row in write_csv(course, [MIXED])}
    assert (scores["right"], scores["wrong"]) == (0, 8 + 1.5)
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    page = course.notebook("feedback", MIXED, "right").with_suffix(".html").read_text("utf-8")
    assert "<strong>0 of 18 points, 17.5 taken off for being late" in page
    assert "handed in 2 h after the due date, 17.5 points taken off" in page


def test_feedback_has_the_state_on_top_and_nbgraders_own_command_gives_the_same_page(
    course: Course, nbgrader_environment: dict[str, str]
) -> None:
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    ours = {path.parts[-3]: path.read_text("utf-8") for path in course.root.glob("feedback/*/*/*.html")}
    assert set(ours) == set(EXPECTED) - {"absent"}
    for student, page in ours.items():
        state, _, reason = EXPECTED[student]
        body = page[page.index("<body") :]
        assert f"<strong>{state}</strong>: {MEANINGS[state]}" in body
        told = body.index(f"<strong>{state}</strong>")
        assert told <= body.index(reason, told)
        if student != "truncated":
            assert told < body.index("Your answers were put into the notebook")
        for hidden in ("autograders.probes import", "HIDDEN TESTS", "observation+json"):
            assert hidden not in page.replace("honest = autograders.probes.probe", "")
    shutil.rmtree(course.root / "feedback")
    done = subprocess.run(
        ["nbgrader", "generate_feedback", MIXED],
        cwd=ROOT,
        env={**nbgrader_environment, "LECTURE_COURSE": str(course.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = {path.parts[-3]: path.read_text("utf-8") for path in course.root.glob("feedback/*/*/*.html")}
    assert set(theirs) == set(EXPECTED) - {"absent", "truncated"}  # nbgrader has no page where there is no notebook
    inputs = PageInputs(course, MIXED)
    for student, page in theirs.items():
        assert page + inputs.ending(student) == ours[student]


def test_plain_nbgrader_gives_partial_and_crashed_submissions_the_same_scores(
    mixed: Course, mixed_graded: MixedClass, tmp_path: Path, nbgrader_environment: dict[str, str]
) -> None:
    course = copy_course(mixed, tmp_path / "plain")
    done = subprocess.run(
        ["nbgrader", "autograde", MIXED],
        cwd=ROOT,
        env={**nbgrader_environment, "LECTURE_COURSE": str(course.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "truncated" in done.stderr
    for student in ("right", "wrong", "syntax", "killer", "forger"):
        ours = question_points(mixed_graded.course, MIXED, student)
        assert question_points(course, MIXED, student) == ours


def test_a_quiet_run_prints_the_incidents_and_nothing_else(mixed_graded: MixedClass) -> None:
    lines = mixed_graded.grading.out.splitlines()
    named = [student for student, (state, *_) in EXPECTED.items() if state not in (State.GRADED, "missing")]
    assert len(lines) == len(named)
    for student in named:
        assert sum(f": {student}, {MIXED}: " in line for line in lines) == 1
