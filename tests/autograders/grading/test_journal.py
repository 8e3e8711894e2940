"""The journal: damaged records, full disks and interrupted work are said, and cost nothing that was finished."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MIXED, ROOT, MixedClass, autograde, copy_course

from autograders.__main__ import main
from autograders.course import WITHOUT_SANDBOX_VARIABLE, Course, CourseError
from autograders.grading.grade import grade
from autograders.grading.journal import DamagedRecord, look_up, read_record, write_record
from autograders.grading.states import State
from autograders.nbgrader.nbgrader_api import ConversionError
from autograders.reasons import Kind, Reason
from autograders.results.known_scores import question_points
from autograders.results.rows import rows

pytestmark = pytest.mark.slow


@pytest.fixture
def course(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded mixed class, the test's own."""
    return copy_course(mixed_graded.course, tmp_path / "course")


DAMAGES = {
    "cut off": lambda text: text[: len(text) // 2],
    "a score changed": lambda text: text.replace('"points": 8.0', '"points": 7.0', 1),
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
    assert found["wrong"].score == 8


def test_a_damaged_record_is_told_by_gradebook_and_feedback_and_no_page_shows_it(
    course: Course, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    course.journal(MIXED, "right").write_text("{}", "utf-8")
    place = ["--course", str(course.root), "--assignment", MIXED]
    assert main(["gradebook", *place]) == 3
    assert "damaged" in course.grades.read_text("utf-8")
    monkeypatch.setattr("autograders.results.feedback.generate_feedback", lambda *_: None)
    assert main(["feedback", "--quiet", *place]) == 1
    told = capsys.readouterr().err
    assert "5 pages written; none for:" in told
    assert "right.json is damaged" in told
    assert not list(course.root.glob("feedback/right/*/*"))


def test_bytes_that_are_no_text_are_a_damaged_record_too(course: Course) -> None:
    course.journal(MIXED, "right").write_bytes(b"\xff\xfe{}")
    record = look_up(course, MIXED, "right")
    assert record is not None
    assert record.state == "failed"


def conversion_failed(cause: Exception) -> ConversionError:
    error = ConversionError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("where", ["the notebook", "the journal"])
def test_a_full_disk_stops_the_run_and_loses_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    course.journal(MIXED, "wrong").unlink()
    kept = {path: path.read_bytes() for path in (course.root / "journal").rglob("*.json")}
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if where == "the notebook":
        monkeypatch.setattr(
            "autograders.grading.attempt.autograde", lambda *_: (_ for _ in ()).throw(conversion_failed(full))
        )
    else:
        monkeypatch.setattr("autograders.grading.attempt.autograde", lambda *_: None)
        monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(full))
    with pytest.raises(CourseError, match="Make room"):
        grade(course, [MIXED], progress=False)
    assert {path: path.read_bytes() for path in (course.root / "journal").rglob("*") if path.is_file()} == kept


SMALL_DISK = """
mount -t tmpfs -o size=20m tmpfs {mount} && cp -r {course} {mount}/course
free=$(df -k --output=avail {mount} | tail -n 1); head -c $((free - 30))K /dev/zero > {mount}/ballast
{python} -m autograders grade --quiet --course {mount}/course --assignment {assignment}; echo "code $?"
ls {mount}/course/journal/{assignment}; rm {mount}/ballast
{python} -m autograders grade --course {mount}/course --assignment {assignment}; echo "code $?"
cp -r {mount}/course {to}
"""


@pytest.mark.full
def test_a_disk_that_is_really_full(mixed: Course, mixed_graded: MixedClass, tmp_path: Path) -> None:
    """On a small file system of its own: what fits is kept, and when there is room again the same command goes on.

    In `make test` the system's error is raised by the tests above, and within a process by test_runner.py.
    """
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*shell, "mount -t tmpfs tmpfs /mnt"], check=False).returncode:
        pytest.skip("no user namespace in which a small file system could be mounted")
    course = copy_course(mixed, tmp_path / "two")
    for student in ("right", "syntax", "killer", "forger"):
        shutil.rmtree(course.step("submitted", student))
    mount, to = tmp_path / "mount", tmp_path / "after"
    mount.mkdir()
    script = SMALL_DISK.format(mount=mount, course=course.root, python=sys.executable, assignment=MIXED, to=to)
    # A root of a namespace cannot change to the sandbox's user.
    alone = {**os.environ, WITHOUT_SANDBOX_VARIABLE: "1"}
    done = subprocess.run([*shell, script], capture_output=True, text=True, check=False, cwd=ROOT, env=alone)
    said = [line for line in done.stdout.splitlines() if line.startswith("code") or line.endswith(".json")]
    assert said == ["code 1", "truncated.json", "code 3"], done.stdout + done.stderr
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("autograde grade:")]
    assert told.startswith("autograde grade: cannot write while grading wrong")
    assert "Make room, then run the same command again" in told
    assert "1 graded; 1 were already done" in done.stdout
    assert question_points(Course(to), MIXED, "wrong") == question_points(mixed_graded.course, MIXED, "wrong")


def test_a_failed_submission_is_tried_again_and_others_keep_their_records(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    record.state, record.reasons = State.FAILED, (Reason(Kind.OTHER, "RuntimeError: x"),)
    write_record(course, record)
    before = {path: path.stat().st_ino for path in (course.root / "journal").rglob("*.json")}
    monkeypatch.setattr("autograders.grading.attempt.autograde", lambda *_: None)
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

    monkeypatch.setattr("autograders.grading.attempt.autograde", autograde_again)
    grade(course, [MIXED], progress=False)
    assert asked == ["wrong"]


def test_a_file_that_changes_while_it_is_graded_is_graded_again(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.journal(MIXED, "wrong").unlink()
    path = course.notebook("submitted", MIXED, "wrong")
    monkeypatch.setattr("autograders.grading.attempt.autograde", lambda *_: path.write_bytes(path.read_bytes() + b"\n"))
    summary = grade(course, [MIXED], progress=False)
    assert "another file was handed in" in [record.reason for record in summary.set_aside][1]
    monkeypatch.setattr("autograders.grading.attempt.autograde", lambda *_: None)
    assert dict(grade(course, [MIXED], progress=False).states) == {"graded": 1}


def test_the_journal_is_plain_json(course: Course) -> None:
    content = json.loads(course.journal(MIXED, "wrong").read_text("utf-8"))
    assert content["questions"]["03a-clip"]["points"] == 5
    assert set(content["cell_seconds"]) >= {"03a-clip", "03a-clip-test"}


def test_a_command_in_the_shell_says_the_same(course: Course) -> None:
    course.journal(MIXED, "right").write_text("{", "utf-8")
    done = autograde("grade", "--quiet", "--assignment", MIXED, course=course)
    assert done.code == 3
    assert "is damaged" in done.out
