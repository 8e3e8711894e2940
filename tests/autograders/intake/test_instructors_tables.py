"""Tables that people and spreadsheets write: read as they are meant, or refused with the line; nobody disappears."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograders.__main__ import _course, _parser
from autograders.course import Course, CourseError
from autograders.intake.lms_tables import read_class_list, read_lms_table
from autograders.intake.roster import Owners, Roster
from autograders.intake.times import due_dates
from autograders.tables import read_csv, read_table

FIRST = "03a-training-recipe"
DUE = "2026-03-08 23:59 +0100"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


BAD = {
    "unclosed": ('id,name\nada,"Ada A\nben,Ben B\n', "line 2: unexpected end of data. Is a quotation mark not closed"),
    "closed by another": ('id,name\nada,"Ada A\nben,Ben B"\n', "has several lines"),
    "a quotation mark within": ('id,name\nada,"Ada" A\n', "line 2: "),
    "unclosed in a large class": (
        'id,name\nada,"Ada A\n' + "".join(f"s{number},Student Number {number}\n" for number in range(8000)),
        "line 2: field larger than field limit",
    ),
    "a comma in a name": ("name,id\nBerg, Anna,s1\nBen B,s2\n", "line 2 has 3 cells, the header 2"),
    "cut off": ("id,name\nada,Ada A\nben\n", "line 3 has 1 cells, the header 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_roster_that_would_lose_a_student_is_refused_with_the_line(course: Course, name: str) -> None:
    text, message = BAD[name]
    course.roster.write_text(text, "utf-8")
    with pytest.raises(CourseError, match=r"roster\.csv") as refused:
        Roster(course)
    assert message in str(refused.value)


def test_a_line_end_that_only_python_knows_is_part_of_a_name(course: Course) -> None:
    course.roster.write_text("id,name\nada,Ada\x0bA\nben,Ben\u2028Benson\nzoe,Zoe\x85Z\n", "utf-8")
    assert Roster(course).names == {"ada": "Ada\x0bA", "ben": "Ben\u2028Benson", "zoe": "Zoe\x85Z"}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_spreadsheets_write_is_read(course: Course, separator: str, encoding: str, end: str) -> None:
    lines = [["id", "name"], ["ada", "Ada Ö"], [], ["", ""], ["ben", '"B, C; D"']]
    content = end.join(separator.join(line) for line in lines).encode(encoding)
    course.roster.write_bytes(content)
    assert Roster(course).names == {"ada": "Ada Ö", "ben": "B, C; D"}
    due = [["assignment", "due"], [FIRST, DUE], ["", ""]]
    (course.root / "assignments.csv").write_bytes(end.join(separator.join(line) for line in due).encode(encoding))
    assert list(due_dates(course)) == [FIRST]


def test_a_mapping_and_an_export_are_refused_with_the_line_too(course: Course, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('file,id\nx.ipynb,"ada\ny.ipynb,ben\n', "utf-8")
    with pytest.raises(CourseError, match="line 2: unexpected end of data"):
        Owners(Roster(course), path)
    path.write_text('Student,ID\n"A, B,1\nC,2\n', "utf-8")
    for read in (read_lms_table, read_class_list):
        with pytest.raises(CourseError, match="line 2: unexpected end of data"):
            read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"assignment,due\n{FIRST},{DUE}\n\n{FIRST},2026-03-01 23:59 +0100\n".encode(), f"line 4: {FIRST} has a line"),
        (f"assignment,due\n{FIRST}\n".encode(), "line 2 has 1 cells, the header 2"),
        (f'assignment,due\n{FIRST},"{DUE}\n'.encode(), "line 2: unexpected end of data"),
        (f"assignment,due\n{FIRST}\xe4,{DUE}\n".encode("latin-1"), "not UTF-8"),
        (b"assignment;day\n", "no column 'due'"),
    ],
    ids=["twice", "cut off", "unclosed", "Latin-1", "no due"],
)
def test_due_dates_that_say_two_things_or_none_are_refused(course: Course, content: bytes, message: str) -> None:
    (course.root / "assignments.csv").write_bytes(content)
    with pytest.raises(CourseError, match=message):
        due_dates(course)


CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=6), st.sampled_from(",;\t"))
def test_what_pythons_writer_wrote_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], separator: str
) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([["a", "b"], *lines])
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    path.write_bytes(text.getvalue().encode())
    assert read_csv(path).lines == [line for line in lines if any(map(str.strip, line))]


def test_a_missing_table_and_a_workbook_are_told(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"PK\x03\x04")
    with pytest.raises(CourseError, match="a workbook"):
        read_csv(tmp_path / "x.csv")


def test_an_assignment_that_is_named_twice_is_meant_once(tmp_path: Path) -> None:
    twice = ["--assignment", FIRST, "--assignment", FIRST]
    options = _parser().parse_args(["gradebook", "--course", str(tmp_path), *twice])
    assert _course(options)[1] == [FIRST]
