"""A gradebook that another program holds is waited for, and then told by whom; nobody's grades are touched."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import OperationalError

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.grading import attempt
from autograders.grading.grade import grade
from autograders.grading.job import Packer
from autograders.grading.journal import read_record
from autograders.nbgrader.database import open_gradebook
from autograders.nbgrader.gradebook_lock import GradebookLocked, explain_locks
from autograders.nbgrader.nbgrader_api import ConversionError
from autograders.release.course_check import check_course
from autograders.results.class_tables import write_csv

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"
HOLD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(course: Course) -> Iterator[int]:
    """Another process holds the gradebook; its number."""
    command = [sys.executable, "-c", HOLD, str(course.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.communicate()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite gives up at once."""
    for module in ("course", "release.course_check", "grading.job", "nbgrader.gradebook_lock"):
        monkeypatch.setattr(f"autograders.{module}.LOCK_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", ["grade", "gradebook", "feedback"])
def test_a_locked_gradebook_is_told_with_its_holder_and_left_alone(
    course: Course, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = course.database.read_bytes()
    with held(course) as number:
        code = main([command, "--course", str(course.root), *(["--quiet"] if command != "gradebook" else [])])
        told = capsys.readouterr().err
    assert course.database.read_bytes() == before
    if command == "feedback":  # nothing was graded: it needs no gradebook
        assert code == 0
        return
    assert code == 1
    assert f"gradebook.db is locked by process {number} ({sys.executable}" in told
    assert "run the same command again" in told
    assert "back" not in told.replace("backup", "")
    assert "sqlalche" not in told


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "use",
    [lambda course: check_course(course, [FIRST]), Packer, lambda course: open_gradebook(course).__enter__()],
    ids=["check", "parcel", "open"],
)
def test_whoever_reads_the_gradebook_says_that_it_is_locked(course: Course, use) -> None:
    with held(course) as number, pytest.raises(GradebookLocked, match=f"locked by process {number}"):
        use(course)


def test_a_lock_that_ends_is_waited_for(course: Course) -> None:
    """The lock is there until the reader waits for it: SQLite's busy handler is what ends it."""
    holder = sqlite3.connect(course.database, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(7.0, lambda: holder.execute("COMMIT"))  # longer than SQLite's own patience of five
    timer.start()
    try:
        assert {row.assignment for row in write_csv(course, [FIRST])} == set()
    finally:
        timer.join()
        holder.close()


@pytest.mark.usefixtures("impatient")
def test_a_lock_in_mid_run_stops_it_and_fails_nobody(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command goes on when the lock is gone."""
    for student in ("ada", "bob"):
        path = course.notebook("submitted", FIRST, student)
        path.parent.mkdir(parents=True)
        path.write_bytes(course.notebook("release", FIRST).read_bytes())
    real = attempt.autograde
    with monkeypatch.context() as patch:

        def locked_meanwhile(*arguments: object) -> None:
            with held(course):
                real(*arguments)  # type: ignore[arg-type]

        patch.setattr("autograders.grading.attempt.autograde", locked_meanwhile)
        with pytest.raises(GradebookLocked, match="what was finished is kept"):
            grade(course, [FIRST], progress=False)
    assert read_record(course, FIRST, "ada") is None
    monkeypatch.setattr("autograders.grading.attempt.autograde", lambda *_: (_ for _ in ()).throw(ConversionError("x")))
    assert grade(course, [FIRST], progress=False).states == {"failed": 2}


def test_what_a_submission_says_of_disks_and_locks_stops_nobody(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an exception's type can stop a run, never its text: that may quote a student's notebook."""
    path = course.notebook("submitted", FIRST, "eve")
    path.parent.mkdir(parents=True)
    path.write_bytes(course.notebook("release", FIRST).read_bytes())
    text = "'No space left on device', 'database is locked', KeyboardInterrupt, Read-only file system"
    monkeypatch.setattr(
        "autograders.grading.attempt.autograde", lambda *_: (_ for _ in ()).throw(ConversionError(text))
    )
    assert grade(course, [FIRST], progress=False).states == {"failed": 1}


def test_only_a_damaged_database_is_to_be_replaced(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OperationalError("SELECT", None, sqlite3.OperationalError("attempt to write a readonly database"))

    with monkeypatch.context() as patch:
        patch.setattr("nbgrader.api.Gradebook", refuse)
        with pytest.raises(CourseError, match=r"readonly database. .* the file itself may be sound"):
            open_gradebook(course).__enter__()
    course.database.write_bytes(b"x" * 5000)
    with pytest.raises(CourseError, match="keep the file, and put a copy in its place"):
        open_gradebook(course).__enter__()


def test_another_error_of_the_database_stays_what_it_is(course: Course) -> None:
    with pytest.raises(OperationalError), explain_locks(course.database):
        raise OperationalError("SELECT", None, sqlite3.OperationalError("database is locked"))
