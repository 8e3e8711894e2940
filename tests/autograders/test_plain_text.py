"""Names and texts of others: no command for a terminal, no formula for a spreadsheet; what was written comes back."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MIXED, ROOT, MixedClass, autograde, copy_course
from helpers.submissions import FIRST, handed_in
from hypothesis import given
from hypothesis import strategies as st

from autograders.course import Course
from autograders.grading.journal import read_record, write_record
from autograders.intake.roster import Roster
from autograders.plain_text import plain
from autograders.reasons import Kind, Reason
from autograders.results.class_tables import table, write_csv
from autograders.tables import cell_text, original, read_table, write_table

pytestmark = pytest.mark.slow

COMMANDS = {
    "\x1b[31m": r"\x1b[31m",
    "a\nb": r"a\nb",
    "a\r\tb": r"a\r\tb",
    "\x9b2J": r"\x9b2J",
    "\u202eevil": r"\u202eevil",
    "\u2066a\u2069": r"\u2066a\u2069",
    "a\u2028b": r"a\u2028b",
    "\udcdcbung": r"\udcdcbung",
    "\x00\x7f": r"\x00\x7f",
    "\ufeffa": r"\ufeffa",
    "O'Brien, Zoë +1 – naïve 漢字 \u0645\u06cc\u200c\u062e": "O'Brien, Zoë +1 – naïve 漢字 \u0645\u06cc\u200c\u062e",
}


@pytest.mark.parametrize("text", COMMANDS, ids=ascii)
def test_what_is_a_command_is_written_as_its_number(text: str) -> None:
    assert plain(text) == COMMANDS[text]


@given(st.text(st.characters()))
def test_whatever_is_written_can_be_encoded_and_keeps_to_its_line(text: str) -> None:
    written = plain(text)
    written.encode("utf-8")
    assert len(written.splitlines()) <= 1
    assert plain(text, lines=True).count("\n") == text.count("\n")


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "'=1", "''=1", "＝1", '=HYPERLINK("https://x")')


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_a_cell_that_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert str(cell_text(text)).startswith("'")
    assert cell_text("plain") == "plain"
    assert cell_text(-1.5) == -1.5


WRITTEN = st.characters(exclude_categories=["C", "Zl", "Zp"]) | st.sampled_from("=+-@'\t\n")


@given(st.lists(st.text(WRITTEN)))
def test_what_is_read_back_is_what_was_written(cells: list[str]) -> None:
    assert [original(str(cell_text(cell))) for cell in cells] == cells


def test_a_table_is_read_back_with_its_columns(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", [["student", "points"], ["=ada", -1.0], ["@ben", 2.0], ["c\nd", 3.0]])
    assert [row["student"] for row in read_table(tmp_path / "t.csv")] == ["=ada", "@ben", "c\nd"]
    assert [row["points"] for row in read_table(tmp_path / "t.csv")] == ["-1.0", "2.0", "3.0"]


def test_an_id_that_looks_like_a_formula_goes_through_every_table(mixed_graded: MixedClass, tmp_path: Path) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    course.roster.write_text("id,name\n=2+3,\"=cmd|' /C calc'!A0\"\nright,R\n", "utf-8")
    course.step("submitted", "absent\x1b[2J\u202e", MIXED).mkdir(parents=True)
    found = write_csv(course, [MIXED])
    assert "=2+3" in [row.student for row in found]
    for file in ("grades.csv", "questions.csv"):
        text = (course.root / file).read_text("utf-8")
        assert "\x1b" not in text
        assert "\u202e" not in text
        cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
        assert not [cell for cell in cells if cell[:1] in "=+-@\t\r" and cell]
        assert "'=2+3" in cells
    assert {"=2+3", "right"} <= {row["student"] for row in read_table(course.grades)}
    shown = table(found)
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 1 + len(found)
    with course.grades.open(encoding="utf-8", newline="") as file:
        written = [line["student"] for line in csv.DictReader(file)]
    course.roster.write_text("\n".join(["id", *(student for student in written if "x1b" not in student)]), "utf-8")
    assert "=2+3" in Roster(course).names


def test_no_name_or_reason_sends_a_command_to_the_terminal(mixed_graded: MixedClass, tmp_path: Path) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    inbox = tmp_path / "in"
    inbox.mkdir()
    content = json.dumps(handed_in(course))
    (inbox / "\x1b]0;owned\x07\u202e\nright.ipynb").write_text(content, "utf-8")
    (inbox / "x\x1b[2K\rnobody.txt").write_text("x", "utf-8")
    record = read_record(course, MIXED, "syntax")
    assert record is not None
    record.reasons += (Reason(Kind.OTHER, "\x1b[2J\nall are \u202egraded"),)
    write_record(course, record)
    runs = [
        autograde("collect", inbox, course=course),
        autograde("grade", "--quiet", "--assignment", FIRST, "--student", "syntax", course=course),
        autograde("gradebook", "--assignment", FIRST, course=course),
    ]
    for done in runs:
        assert not set(done.out + done.err) & set("\x1b\x07\r\u202e"), done
    assert "owned" in runs[0].out
    assert "\nright" not in runs[0].out
    assert "\nall are" not in runs[1].out + runs[2].out


def test_a_course_of_commands_is_named_without_them(tmp_path: Path) -> None:
    done = autograde("gradebook", course=Course(tmp_path / "no\x1b7course"))
    assert done.code == 1
    assert "\x1b" not in done.err


def test_what_is_piped_into_a_program_that_has_ended_is_no_error() -> None:
    """As with `autograde explain … | head`."""
    unread, pipe = os.pipe()
    os.close(unread)
    with os.fdopen(pipe, "wb") as output:
        command = [sys.executable, "-m", "autograders", "doctor"]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == ""
