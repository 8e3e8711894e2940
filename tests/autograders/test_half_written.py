"""A file that is being written, or never was finished: who removes it, and what only looks like it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from autograders.course import Course
from autograders.files import write_bytes_atomically, write_text_atomically
from autograders.term.backup import back_up, restore
from autograders.writer import only_writer

KILLED = """
import os, signal, socket, sys
from pathlib import Path
from autograders.files import write_text_atomically
socket.gethostname = lambda host=sys.argv[2] or socket.gethostname(): host
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_text_atomically(Path(sys.argv[1]), "half")
"""


def killed_while_writing(path: Path, host: str = "") -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), host], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.fixture
def course(tmp_path: Path) -> Course:
    course = Course(tmp_path / "course")
    course.root.mkdir()
    (course.root / "secret").write_text("s", "utf-8")
    return course


def files(course: Course) -> set[str]:
    return {path.name for path in course.root.rglob("*") if path.is_file()} - {".writer", "secret"}


def test_a_writer_leaves_alone_what_another_process_is_writing(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gradebook`, `roster` and `release` hold no lock."""
    real = os.fsync

    def meanwhile(descriptor: int) -> None:
        with only_writer(course, "grade"):
            real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_text_atomically(course.grades, "whole")
    assert course.grades.read_text("utf-8") == "whole"
    assert files(course) == {"grades.csv"}


def test_what_a_killed_process_left_is_removed_and_nothing_else(course: Course) -> None:
    theirs = {"data.csv.part", ".x.part", ".notes.txt.abcdefgh.part"}
    for name in theirs:
        write_text_atomically(course.step("submitted", "ada", "03a") / name, "a student's")
    killed_while_writing(course.step("submitted", "ada", "03a") / "03a.ipynb")
    assert len(files(course) - theirs) == 1
    with only_writer(course, "grade"):
        assert files(course) == theirs


def test_what_another_machine_is_writing_into_a_shared_folder_stays(course: Course) -> None:
    killed_while_writing(course.grades, "another machine")
    (part,) = files(course)
    with only_writer(course, "grade"):
        assert files(course) == {part}


def test_a_backup_has_the_files_of_students_and_no_half_of_ours(course: Course, tmp_path: Path) -> None:
    theirs = {"data.csv.part", ".x.part"}
    for name in theirs:
        write_text_atomically(course.step("submitted", "ada", "03a") / name, "a student's")
    killed_while_writing(course.grades, "another machine")
    killed_while_writing(course.step("submitted", "ada", "03a") / "03a.ipynb", "another machine")
    assert back_up(course, tmp_path / "file").files == 1 + len(theirs)
    other = Course(tmp_path / "other")
    restore(tmp_path / "file", other)
    assert files(other) == theirs


@pytest.mark.parametrize("sign", ["a", "ä", "深", "🎓"])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path, sign: str) -> None:
    path = tmp_path / (sign * (255 // len(sign.encode())))
    write_bytes_atomically(path, b"x")
    assert path.read_bytes() == b"x"
