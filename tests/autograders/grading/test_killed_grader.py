"""The grader killed at random moments: a second run finishes the class, repeats nothing and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import HELPERS, MIXED, ROOT, MixedClass, autograde, copy_course

from autograders import writer
from autograders.course import Course, CourseError
from autograders.files import is_part
from autograders.questions.simulate import simulate
from autograders.results.known_scores import compare_known
from autograders.writer import RUN_VARIABLE, only_writer

pytestmark = pytest.mark.slow


def kill_again_and_again(*arguments: object) -> list[dict[str, object]]:
    """Run tests/helpers/grader_crashes.py; one entry for each class that was graded to its end."""
    command = [sys.executable, str(HELPERS / "grader_crashes.py"), *map(str, arguments)]
    paths = [str(ROOT)]
    if "--workers" in arguments:  # their notebooks run in the processes that grade
        paths.insert(0, str(HELPERS / "without_kernels"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [{**json.loads(line), "stderr": done.stderr[-2000:]} for line in done.stdout.splitlines()]


def check(classes: list[dict[str, object]], kills: int) -> None:
    assert sum(int(str(one["kills"])) for one in classes) == kills
    for one in classes:
        assert one["same"], one
        assert one["repeated"] == [], one
        assert one["left"] == [], one


def test_killed_while_notebooks_run(
    mixed: Course, released: Course, tmp_path: Path, repetitions: Callable[[int, int], int]
) -> None:
    kills = repetitions(4, 50)
    if kills == 50:
        course = copy_course(released, tmp_path / "class")
        simulate(course, [MIXED], 20)
    else:
        course = copy_course(mixed, tmp_path / "class")
        for student in ("wrong", "killer", "forger"):
            shutil.rmtree(course.step("submitted", student))
    check(kill_again_and_again(course.root, tmp_path / "killed", kills, 1, 0.3), kills)


def test_killed_between_the_notebooks(
    mixed: Course, mixed_graded: MixedClass, tmp_path: Path, repetitions: Callable[[int, int], int]
) -> None:
    kills = repetitions(8, 500)
    replay = ("--replay", mixed_graded.course.root)
    check(kill_again_and_again(mixed.root, tmp_path / "killed", kills, 2, 0.5, *replay), kills)


@pytest.mark.full
def test_killed_while_two_processes_grade(released: Course, tmp_path: Path) -> None:
    """In `make test`, test_runner.py kills such a run once, at a moment that it chooses."""
    kills = 50
    course = copy_course(released, tmp_path / "class")
    simulate(course, [MIXED], 24)
    check(kill_again_and_again(course.root, tmp_path / "killed", kills, 3, 0.9, "--workers", 2), kills)


HOLDER = """
import os, subprocess, sys, tempfile
from autograders.course import Course
from autograders.files import open_part
from autograders.writer import only_writer
from pathlib import Path
course = Course(Path(sys.argv[1]))
with only_writer(course, "grade"):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
    (course.root / "journal" / "x").mkdir(parents=True, exist_ok=True)
    os.close(open_part(course.root / "journal" / "x")[0])
    (course.staged / "ada").mkdir(parents=True)
    print(child.pid, tempfile.mkdtemp(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(course: Course):
    """A process that is writing the course, what it started and where its temporary files lie."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(course.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    child, folder = process.stdout.readline().split()
    yield process, int(child), Path(folder)
    process.kill()
    process.communicate()
    if is_running(int(child)):
        os.kill(int(child), signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_grader_refuses_and_says_who_runs(course: Course, holder) -> None:
    process, child, folder = holder
    done = autograde("grade", course=course)
    assert done.code == 1
    assert f"`autograde grade` (process {process.pid} on " in done.err
    assert "one writer at a time" in done.err
    assert is_running(child)
    assert folder.is_dir()
    assert (course.staged / "ada").is_dir()


def test_a_dead_holder_keeps_nothing(course: Course, holder) -> None:
    process, child, folder = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert is_running(child)  # its own session: nothing ends it but the next writer
    with only_writer(course, "grade"):
        assert not is_running(child)
        assert not folder.exists()
        assert not folder.parent.exists()
        assert not course.staged.exists()
        assert not [path for path in course.root.rglob("*") if is_part(path.name)]
    assert RUN_VARIABLE not in os.environ


INTERRUPTED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE grade_cells SET max_score = 0")
database.execute("CREATE TABLE much (content)")
database.executemany("INSERT INTO much VALUES (?)", [("x" * 4000,)] * 50)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_in_the_database_is_taken_back(course: Course) -> None:
    path = course.root / "gradebook.db"
    with sqlite3.connect(path) as database:
        before = list(database.iterdump())
    database.close()
    subprocess.run([sys.executable, "-c", INTERRUPTED, str(path)], check=False)
    assert path.with_name("gradebook.db-journal").stat().st_size > 0
    assert autograde("grade", "--student", "nobody", course=course).code == 1
    with sqlite3.connect(path) as database:
        assert list(database.iterdump()) == before
    database.close()


FORKED = """
import os, sys, time
from autograders.course import Course
from autograders.writer import only_writer
from pathlib import Path
with only_writer(Course(Path(sys.argv[1])), "grade"):
    if os.fork() == 0:
        time.sleep(float(sys.argv[2]))
        os._exit(0)
    print("forked", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("seconds", [0.5, 60.0], ids=["a moment", "for good"])
def test_a_child_that_was_being_started_keeps_the_lock_of_a_dead_holder_for_a_moment_only(
    course: Course, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 3.0)
    command = [sys.executable, "-c", FORKED, str(course.root), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as told:
        assert told.readline() == b"forked\n"
    group = os.getpgid(process.pid)
    process.kill()
    process.wait()
    try:
        if seconds < 3:
            with only_writer(course, "grade"):
                pass
        else:
            with pytest.raises(CourseError, match=f"process {process.pid} on"), only_writer(course, "grade"):
                pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def test_a_copy_of_the_course_leaves_the_original_alone(course: Course, holder, tmp_path: Path) -> None:
    _, child, folder = holder
    with only_writer(copy_course(course, tmp_path / "copy"), "grade"):
        assert is_running(child)
        assert folder.is_dir()


def test_a_writer_that_ends_lets_the_next_one_in_and_leaves_no_folder(course: Course) -> None:
    import tempfile

    for _ in range(2):
        with only_writer(course, "grade"):
            inside = Path(tempfile.mkdtemp())
            with pytest.raises(CourseError, match="one writer"), only_writer(course, "regrade --write"):
                pass
        assert not inside.exists()
    with pytest.raises(CourseError, match="release"), only_writer(Course(course.root / "none"), "grade"):
        pass


def busy_processes(count: int) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


@pytest.mark.full
def test_the_same_scores_beside_four_busy_processes(released: Course, tmp_path: Path) -> None:
    idle = copy_course(released, tmp_path / "idle")
    simulate(idle, [MIXED], 20)
    loaded = copy_course(idle, tmp_path / "loaded")
    assert autograde("grade", "--quiet", course=idle).code == 0
    busy = busy_processes(4)
    try:
        assert autograde("grade", "--quiet", course=loaded).code == 0
        assert all(process.poll() is None for process in busy)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for course in (idle, loaded):
        autograde("gradebook", "--assignment", MIXED, course=course)
        assert compare_known(course)[1] == []
    for name in ("grades.csv", "questions.csv"):
        assert (idle.root / name).read_bytes() == (loaded.root / name).read_bytes()
