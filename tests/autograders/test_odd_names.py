"""Names that are not UTF-8, as old zip archives leave them, stop no command and cost nobody else."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import autograde
from helpers.submissions import FIRST, handed_in

from autograders.__main__ import main
from autograders.course import Course
from autograders.files import write_text_atomically
from autograders.grading.journal import Record, read_record, write_record
from autograders.grading.states import State
from autograders.intake.intake import receive
from autograders.notebooks import as_text
from autograders.plain_text import plain
from autograders.reasons import Kind, Reason
from autograders.sandbox.student_files import copy_files

pytestmark = pytest.mark.slow

LATIN_1 = os.fsdecode(b"\xdcbung")
SHOWN = r"\udcdcbung"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Übung 3.ipynb", "Übung 3.ipynb"),
        (f"{LATIN_1} 3.ipynb", rf"{SHOWN} 3.ipynb"),
        ("a\x1b[31m\n.ipynb", r"a\x1b[31m\n.ipynb"),
        ("a\ud800", r"a\ud800"),
        ("a\u202eb", r"a\u202eb"),
    ],
)
def test_a_name_is_shown_with_escapes_where_it_cannot_be_written(name: str, shown: str) -> None:
    assert plain(name) == shown
    shown.encode()


def test_what_holds_half_a_character_is_written_and_read_again(tmp_path: Path) -> None:
    course = Course(tmp_path)
    told = Reason(Kind.OTHER, f"{LATIN_1}: \ud800")
    write_record(course, Record("ada", FIRST, "d", "v", State.UNREADABLE, (told,), notes=["\udfff"]))
    found = read_record(course, FIRST, "ada")
    assert found is not None
    assert (found.reason, found.notes) == (f"{LATIN_1}: \ud800", ["\udfff"])
    write_text_atomically(tmp_path / "page.html", f"<p>{LATIN_1}</p>")
    assert (tmp_path / "page.html").read_text("utf-8") == r"<p>\udcdcbung</p>"


@pytest.fixture
def folder(course: Course) -> Path:
    """Where ada's files lie."""
    path = course.step("submitted", "ada", FIRST)
    path.mkdir(parents=True)
    return path


def test_a_notebook_with_such_a_name_is_found_and_the_note_can_be_written(course: Course, folder: Path) -> None:
    (folder / f"{LATIN_1} 3.ipynb").write_text(json.dumps(handed_in(course)), "utf-8")
    (folder / f"{LATIN_1}.csv").symlink_to("/etc/passwd")
    assert [plain(note) for note in receive(course, FIRST, "ada").notes] == [
        rf"the notebook is called {SHOWN} 3.ipynb; it was found by its cells"
    ]
    notes = copy_files(folder, course.root / "files")
    assert notes == [rf"{SHOWN}.csv: it is a link, which is not followed"]
    nb = receive(course, FIRST, "ada").notebook
    nb.metadata["lecture"]["notes"] = notes
    assert json.loads(as_text(nb).encode())["metadata"]["lecture"]["notes"] == notes


def test_a_class_with_such_names_is_graded_and_everybody_has_a_row_and_a_page(course: Course, folder: Path) -> None:
    (folder / f"{LATIN_1}.txt").write_text("x")
    other = course.step("submitted", LATIN_1, FIRST)
    other.mkdir(parents=True)
    (other / f"{FIRST}.ipynb").write_text("{}")
    last = course.step("submitted", "zoe", FIRST)
    last.mkdir(parents=True)
    (last / f"{FIRST}.ipynb").write_text("{}")
    done = autograde("grade", "--quiet", "--assignment", FIRST, course=course)
    assert (done.code, done.err) == (3, "")
    assert rf"ada, {FIRST}: no notebook {FIRST}.ipynb; the folder holds {SHOWN}.txt" in done.out
    assert rf"the folder of {SHOWN} has a name that is no student id" in done.out
    assert f"zoe, {FIRST}: not a notebook: it has no list of cells" in done.out
    assert autograde("gradebook", "--assignment", FIRST, course=course).code == 0
    with course.grades.open(encoding="utf-8", newline="") as file:
        rows = {row["student"]: row["state"] for row in csv.DictReader(file)}
    assert rows == dict.fromkeys([r"\udcdcbung", "ada", "zoe"], State.UNREADABLE)
    done = autograde("feedback", "--quiet", "--assignment", FIRST, course=course)
    assert (done.code, done.err) == (0, "")
    assert f"{SHOWN}.txt" in (course.step("feedback", "ada", FIRST) / f"{FIRST}.html").read_text("utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_collect_says_such_a_name_on_any_terminal(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    sent = tmp_path / "sent"
    sent.mkdir()
    (sent / f"{LATIN_1}.ipynb").write_text("{}")
    (sent / "☃.ipynb").write_text("{}")
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True))
    assert main(["collect", str(sent), "--course", str(course.root)]) == 3
    assert "0 taken, 2 set aside" in sys.stdout.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
