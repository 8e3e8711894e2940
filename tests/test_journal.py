"""The journal, the states and their reasons: everybody has a row, and what cannot be written or read is said."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, ROOT, MixedClass, autograde, copy_course

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.grade import grade
from autograders.gradebook import open_gradebook, question_points, rows, write_csv
from autograders.journal import DamagedRecord, look_up, read_record, write_record
from autograders.nbgrader_api import ConversionError
from autograders.states import CRASHED, GRADED, MEANINGS, OUT_OF_TIME, PARTIAL, TAMPERED, lateness, state_of

EXPECTED = {
    "right": ("graded", 80, ""),
    "wrong": ("graded", 39, ""),
    "syntax": ("partial", 40, "03a-clip: the test cell stopped with NameError"),
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
    assert bool(row["reason"]) == (state != GRADED)
    if score is not None:
        assert float(row["score"]) == score
    elif state != CRASHED:
        assert row["score"] == ""
    if state not in (GRADED, "missing"):
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


def verdict(incident: str | None, misconception: str | None = None) -> dict[str, Any]:
    return {"incident": incident, "misconception": misconception}


def ended(state: str) -> list[dict[str, Any]]:
    return [{"state": state, "reason": f"cell 3: it {state}", "question": None}]


@pytest.mark.parametrize(
    ("verdicts", "incident", "state"),
    [
        ([verdict(None)], (), GRADED),
        ([verdict(None), verdict("malformed")], (), PARTIAL),
        ([verdict("malformed"), verdict("out of time: x")], (), OUT_OF_TIME),
        ([verdict("out of time: x"), verdict(None)], ended(CRASHED), CRASHED),
        ([verdict(None), verdict("stopped")], ended(OUT_OF_TIME), OUT_OF_TIME),
        ([verdict("out of time: x"), verdict("the kernel died in this cell")], (), CRASHED),
        ([verdict("the kernel died"), verdict("2 observations", "forged")], ended(CRASHED), TAMPERED),
    ],
)
def test_the_worst_that_a_question_met_is_the_state(verdicts, incident: Sequence[dict[str, Any]], state: str) -> None:
    found, reason = state_of({f"q{number}": one for number, one in enumerate(verdicts)}, incident)
    assert found == state
    for one in verdicts:
        assert (one["incident"] or "") in reason
    assert all(one["reason"] in reason for one in incident)


@pytest.mark.parametrize(
    ("seconds", "penalty", "words"),
    [
        (0, None, ""),
        (-5, 3.0, ""),
        (30, None, "handed in less than a minute after the due date"),
        (93_784, 10.0, "handed in 1 d 2 h 3 min after the due date, 10 points taken off"),
    ],
)
def test_lateness_in_words(seconds: float, penalty: float | None, words: str) -> None:
    assert lateness(seconds, penalty) == words


def test_a_late_submission_is_called_late_and_says_by_how_much(course: Course) -> None:
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(MIXED, duedate="2026-03-01 12:00:00")
        for student in ("right", "syntax"):
            gradebook.update_or_create_submission(MIXED, student, timestamp="2026-03-01 14:00:00")
    found = {row.student: row for row in write_csv(course, [MIXED])}
    assert (found["right"].state, found["right"].score) == ("late", 80)
    assert found["right"].reason == "handed in 2 h after the due date"
    assert found["syntax"].state == "partial"
    assert "NameError" in found["syntax"].reason
    assert found["syntax"].reason.endswith("handed in 2 h after the due date")
    assert found["wrong"].state == "graded"
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    page = course.notebook("feedback", MIXED, "right").with_suffix(".html").read_text("utf-8")
    assert "<strong>late</strong>" in page
    assert "handed in 2 h after the due date" in page


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
    for student, page in theirs.items():
        assert page == ours[student]


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


DAMAGES = {
    "cut off": lambda text: text[: len(text) // 2],
    "a score changed": lambda text: text.replace('"points": 40.0', '"points": 39.0', 1),
    "a field too many": lambda text: text.replace("{", '{"x": 1, ', 1),
    "no mapping": lambda text: "[1]",
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_said_and_kept_and_costs_nobody_else(course: Course, damage: str) -> None:
    path = course.journal(MIXED, "right")
    changed = DAMAGES[damage](path.read_text("utf-8"))
    assert changed != path.read_text("utf-8")
    path.write_text(changed, "utf-8")
    with pytest.raises(DamagedRecord, match=r"Put it back from a copy, or remove it"):
        read_record(course, MIXED, "right")
    others = {one: one.read_bytes() for one in path.parent.iterdir() if one != path}
    summary = grade(course, [MIXED], progress=False)
    assert [record.student for record in summary.set_aside] == ["right", "truncated"]
    assert str(path) in summary.set_aside[0].reason
    assert path.read_text("utf-8") == changed
    assert {one: one.read_bytes() for one in path.parent.iterdir() if one != path} == others
    found = {row.student: row for row in rows(course, [MIXED])}
    assert found["right"].state == "failed"
    assert found["right"].score is None
    assert str(path) in found["right"].reason
    assert found["wrong"].score == 39


def test_bytes_that_are_no_text_are_a_damaged_record_too(course: Course) -> None:
    course.journal(MIXED, "right").write_bytes(b"\xff\xfe{}")
    record = look_up(course, MIXED, "right")
    assert record is not None
    assert record.state == "failed"


@pytest.mark.parametrize("where", ["the notebook", "the journal"])
def test_a_full_disk_stops_the_run_and_loses_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    course.journal(MIXED, "wrong").unlink()
    kept = {path: path.read_bytes() for path in (course.root / "journal").rglob("*.json")}
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if where == "the notebook":
        monkeypatch.setattr("autograders.grade.autograde", lambda *_: (_ for _ in ()).throw(ConversionError(str(full))))
        with pytest.raises(CourseError, match="Make room"):
            grade(course, [MIXED], progress=False)
    else:
        monkeypatch.setattr("autograders.grade.autograde", lambda *_: None)
        monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(full))
        with pytest.raises(OSError, match="No space left"):
            grade(course, [MIXED], progress=False)
    assert {path: path.read_bytes() for path in (course.root / "journal").rglob("*") if path.is_file()} == kept


SMALL_DISK = """
mount -t tmpfs -o size=20m tmpfs {mount} && cp -r {course} {mount}/course
free=$(df -k --output=avail {mount} | tail -n 1); head -c $((free - 30))K /dev/zero > {mount}/ballast
{python} -m autograders grade --quiet --course {mount}/course --assignment {assignment}; echo "code $?"
ls {mount}/course/journal/{assignment}; rm {mount}/ballast
{python} -m autograders grade --quiet --course {mount}/course --assignment {assignment}; echo "code $?"
cp -r {mount}/course {to}
"""


def test_a_disk_that_is_really_full(mixed: Course, mixed_graded: MixedClass, tmp_path: Path) -> None:
    """On a small file system of its own: what fits is kept, and when there is room again the same command goes on."""
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*shell, "mount -t tmpfs tmpfs /mnt"], check=False).returncode:
        pytest.skip("no user namespace in which a small file system could be mounted")
    course = copy_course(mixed, tmp_path / "two")
    for student in ("right", "syntax", "killer", "forger"):
        shutil.rmtree(course.step("submitted", student))
    mount, to = tmp_path / "mount", tmp_path / "after"
    mount.mkdir()
    script = SMALL_DISK.format(mount=mount, course=course.root, python=sys.executable, assignment=MIXED, to=to)
    done = subprocess.run([*shell, script], capture_output=True, text=True, check=False, cwd=ROOT)
    said = [line for line in done.stdout.splitlines() if line.startswith("code") or line.endswith(".json")]
    assert said == ["code 1", "truncated.json", "code 3"], done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("autograde grade: cannot write while grading wrong")
    assert "Make room, then run the same command again" in last
    assert "1 graded; 1 were already done" in done.stdout
    assert question_points(Course(to), MIXED, "wrong") == question_points(mixed_graded.course, MIXED, "wrong")


def test_a_failed_submission_is_tried_again_and_others_keep_their_records(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    record.state, record.reason = "failed", "RuntimeError: x"
    write_record(course, record)
    before = {path: path.stat().st_ino for path in (course.root / "journal").rglob("*.json")}
    monkeypatch.setattr("autograders.grade.autograde", lambda *_: None)
    summary = grade(course, [MIXED], progress=False)
    assert dict(summary.states) == {"graded": 1}
    assert summary.already == 5
    changed = {path.stem for path, inode in before.items() if path.stat().st_ino != inode}
    assert changed == {"wrong"}


def test_a_graded_notebook_that_is_gone_is_made_again(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    graded, away = course.step("autograded", "wrong"), course.root / "away"
    graded.rename(away)
    asked = []

    def autograde_again(_: Course, assignment: str, student: str) -> None:
        asked.append(student)
        away.rename(graded)

    monkeypatch.setattr("autograders.grade.autograde", autograde_again)
    grade(course, [MIXED], progress=False)
    assert asked == ["wrong"]


def test_a_file_that_changes_while_it_is_graded_is_graded_again(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.journal(MIXED, "wrong").unlink()
    path = course.notebook("submitted", MIXED, "wrong")
    monkeypatch.setattr("autograders.grade.autograde", lambda *_: path.write_bytes(path.read_bytes() + b"\n"))
    summary = grade(course, [MIXED], progress=False)
    assert "another file was handed in" in [record.reason for record in summary.set_aside][1]
    monkeypatch.setattr("autograders.grade.autograde", lambda *_: None)
    assert dict(grade(course, [MIXED], progress=False).states) == {"graded": 1}


def test_the_journal_is_plain_json(course: Course) -> None:
    content = json.loads(course.journal(MIXED, "wrong").read_text("utf-8"))
    assert content["questions"]["03a-clip"]["points"] == 24
    assert set(content["cell_seconds"]) >= {"03a-clip", "03a-clip-test"}


def test_a_command_in_the_shell_says_the_same(course: Course) -> None:
    course.journal(MIXED, "right").write_text("{", "utf-8")
    done = autograde("grade", "--quiet", "--assignment", MIXED, course=course)
    assert done.code == 3
    assert "is damaged" in done.out
