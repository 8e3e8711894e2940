"""The round trip with Canvas and Moodle: what they export becomes the roster, and they read back what changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import MIXED, MixedClass, copy_course
from helpers.lms import (
    Person,
    canvas_feedback,
    canvas_file,
    canvas_gradebook,
    canvas_reads,
    moodle_feedback,
    moodle_reads,
    moodle_worksheet,
)

from autograders.__main__ import main
from autograders.course import Course
from autograders.files import write_text_atomically
from autograders.intake.notes import Note, digest_of, write_note
from autograders.intake.roster import Roster
from autograders.results.lms_export import _differs
from autograders.results.row import points_text
from autograders.results.rows import rows
from autograders.tables import read_table

pytestmark = pytest.mark.slow

PEOPLE = [
    Person(student, name, 100 + number)
    for number, (student, name) in enumerate(
        {
            "right": "Ada Lovelace",
            "wrong": "Zoë O'Brien",
            "syntax": "Søren van der Berg",
            "killer": "李 小龍",
            "forger": "Eve Mallory",
            "truncated": "Alan Turing",
            "absent": "Grace Hopper",
        }.items()
    )
]
NUMBER = {person.id: person.number for person in PEOPLE}
COLUMN = "03a: training recipe (4711)"


@pytest.fixture
def course(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded class of the six, with nothing left for a person."""
    course = copy_course(mixed_graded.course, tmp_path / "course")
    with closing(sqlite3.connect(course.database)) as database, database:
        database.execute(
            "UPDATE grade SET needs_manual_grade = 0, manual_score = coalesce(manual_score, auto_score, 1.5)"
        )
    return course


def autograde(course: Course, *arguments: object) -> int:
    return main([*map(str, arguments), "--course", str(course.root), "--assignment", MIXED])


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def scores(course: Course) -> dict[str, float]:
    return {row.student: row.score for row in rows(course, [MIXED]) if row.score is not None}


def maximum(course: Course) -> str:
    return f"{next(row.max_score for row in rows(course, [MIXED]) if row.max_score):.2f}"


def test_the_wide_table_has_a_row_a_student_with_what_the_roster_knows(course: Course, tmp_path: Path) -> None:
    text = canvas_gradebook(PEOPLE, [COLUMN]).replace("Section,", "Email,").replace(",Lecture,", ",a@example.org,")
    assert autograde(course, "roster", put(tmp_path / "canvas.csv", text)) == 0
    main(["gradebook", "--wide", "--course", str(course.root)])
    wide = {row.pop("student"): row for row in read_table(course.root / "grades-wide.csv")}
    assert {student: (row["name"], row["email"], row["lms_id"]) for student, row in wide.items()} == {
        person.id: (person.surname_first, "a@example.org", str(person.number)) for person in PEOPLE
    }
    long = {(row["student"], row["assignment"]): row for row in read_table(course.grades)}
    assert {student for student, _ in long} == wide.keys()
    for (student, assignment), row in long.items():
        assert wide[student][assignment] == row["score"]
        assert wide[student][f"{assignment}: state"] == row["state"]
    for row in wide.values():
        written = [float(row[assignment]) for assignment in {name for _, name in long} if row[assignment]]
        assert float(row["total"]) == sum(written)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            canvas_gradebook(PEOPLE, [COLUMN]),
            "an export of Canvas: id from 'SIS Login ID', name from 'Student', lms_id",
        ),
        ("\ufeff" + moodle_worksheet(PEOPLE), "an export of Moodle: id from 'ID number', name from 'Full name', email"),
        (
            "First name\tLast name\tID number\tEmail address\n"
            + "".join(f"{p.name.split()[0]}\t{' '.join(p.name.split()[1:])}\t{p.id}\tx\n" for p in PEOPLE),
            "name from 'First name+Last name'",
        ),
    ],
    ids=["Canvas", "Moodle's worksheet", "Moodle's gradebook with tabs"],
)
def test_an_export_becomes_the_roster(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    course.roster.unlink()
    assert autograde(course, "roster", put(tmp_path / "export.csv", text)) == 0
    assert said in capsys.readouterr().out
    roster = Roster(course)
    assert set(roster.names) == {person.id for person in PEOPLE}
    assert {roster.by_name(person.name) for person in PEOPLE} == set(roster.names)


GERMAN = "Vorname;Nachname;ID-Nummer\nAda;Lovelace;right\nZoë;O'Brien;wrong\n"


def test_another_language_is_asked_about_and_then_read(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = course.roster.read_bytes()
    path = put(tmp_path / "teilnehmer.csv", GERMAN)
    assert autograde(course, "roster", path) == 1
    told = capsys.readouterr().err
    assert "  Nachname: Lovelace" in told
    assert "--column id='ID-Nummer' --column name='Vorname+Nachname'" in told
    assert course.roster.read_bytes() == before
    answer = ["--column", "id=ID-Nummer", "--column", "name=Vorname+Nachname"]
    assert autograde(course, "roster", path, *answer, "--dry-run") == 0
    assert course.roster.read_bytes() == before
    assert "no longer on it: absent, forger, killer, syntax, truncated" in capsys.readouterr().out
    assert autograde(course, "roster", path, *answer) == 0
    assert Roster(course).names == {"right": "Ada Lovelace", "wrong": "Zoë O'Brien"}
    assert (course.root / "roster-before.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            canvas_gradebook(PEOPLE, [COLUMN]).replace(",wrong,", ",right,").encode(),
            "right is in more than one line",
        ),
        (
            moodle_worksheet([*PEOPLE[:2], Person("", "Bob Nobody", 1)]).encode(),
            "1 students have no id (Bob Nobody)",
        ),
        ("Vorname;Ä\nx;y\n".encode("latin-1"), "not UTF-8 (byte 8)"),
        (b"Student ID Section\nx y z\n", "no columns separated by a comma, a semicolon or a tab"),
        (canvas_gradebook(PEOPLE, [COLUMN]).encode()[:-20], "It was cut off"),
        (b"PK\x03\x04rest", "a workbook or an archive"),
    ],
    ids=["one id twice", "no id", "Latin-1", "separator", "cut off", "xlsx"],
)
def test_an_export_that_cannot_be_used_changes_nothing(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    before = course.roster.read_bytes()
    path = tmp_path / "export.csv"
    path.write_bytes(content)
    assert autograde(course, "roster", path) == 1
    assert said in capsys.readouterr().err
    assert course.roster.read_bytes() == before


def test_canvas_gets_what_it_does_not_have_and_nothing_else(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"right": [f"{scores(course)['right']:.2f}"], "wrong": ["1.00"]}
    text = canvas_gradebook(PEOPLE, ["Essay (1)", COLUMN], {k: ["7", *v] for k, v in known.items()}, maximum(course))
    path = put(tmp_path / "canvas.csv", text)
    assert autograde(course, "export", "--canvas", path, "--dry-run") == 0
    assert "nothing written" in capsys.readouterr().out
    assert not (course.root / "export").exists()
    assert autograde(course, "export", "--canvas", path) == 0
    told = capsys.readouterr().out
    upload = (course.root / "export" / "canvas.csv").read_text("utf-8")
    read = canvas_reads(upload)
    expected = {NUMBER[student]: score for student, score in scores(course).items() if student != "right"}
    assert {number: float(cells[COLUMN]) for number, cells in read.items()} == expected
    assert "Essay" not in upload.splitlines()[0]
    assert "without a score, left as they are: absent, truncated" in told
    assert "left out, on no roster: Student, Test" in told
    assert path.read_text("utf-8") == text
    uploaded = {student: [f"{score:g}"] for student, score in scores(course).items()}
    path.write_text(canvas_gradebook(PEOPLE, [COLUMN], uploaded, maximum(course)), "utf-8")
    assert autograde(course, "export", "--canvas", path, "--dry-run") == 0
    assert "no score differs" in capsys.readouterr().out


def test_moodle_gets_what_it_does_not_have_and_nothing_else(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grades = {"right": f"{scores(course)['right']:.2f}".replace(".", ","), "wrong": "1,00"}
    text = moodle_worksheet(PEOPLE, grades, maximum(course).replace(".", ","), locked=["forger"])
    assert autograde(course, "export", "--moodle", put(tmp_path / "w.csv", text)) == 0
    assert "Moodle has locked the grades of forger" in capsys.readouterr().out
    upload = (course.root / "export" / f"moodle-{MIXED}.csv").read_text("utf-8")
    expected = {NUMBER[s]: score for s, score in scores(course).items() if s not in ("right", "forger")}
    assert {number: float(grade.replace(",", ".")) for number, grade in moodle_reads(upload).items()} == expected


def test_feedback_goes_back_under_the_names_that_each_lms_reads(course: Course, tmp_path: Path) -> None:
    for number, person in enumerate(PEOPLE[:3]):
        page = course.notebook("feedback", MIXED, person.id).with_suffix(".html")
        write_text_atomically(page, f"page of {person.id}")
        submitted = course.notebook("submitted", MIXED, person.id)
        if number < 2:  # the third handed in by mail
            label = f"export.zip/{canvas_file(person, 900 + number, 'my recipe_2.ipynb', late=number == 1)}"
            write_note(course, MIXED, person.id, Note(label, digest_of(submitted.read_bytes())))
    canvas = put(tmp_path / "canvas.csv", canvas_gradebook(PEOPLE, [COLUMN], maximum=maximum(course)))
    moodle = put(tmp_path / "moodle.csv", moodle_worksheet(PEOPLE, maximum=maximum(course)))
    assert autograde(course, "export", "--canvas", canvas, "--to", tmp_path / "out") == 0
    assert autograde(course, "export", "--moodle", moodle, "--to", tmp_path / "out") == 0
    pages = {person.number: f"page of {person.id}".encode() for person in PEOPLE[:3]}
    assert moodle_feedback(tmp_path / "out" / f"moodle-feedback-{MIXED}.zip") == pages
    del pages[PEOPLE[2].number]
    assert canvas_feedback(tmp_path / "out" / "canvas-feedback.zip") == pages


def twins(text: str) -> str:
    """Two lines with one name, and no id that is on the roster."""
    return text.replace(",right,", ",,").replace(",wrong,", ",,").replace("O'Brien, Zoë", "Lovelace, Ada")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (twins, "Lovelace, Ada is in several lines, without an id"),
        (lambda text: text.replace(",wrong,", ",right,"), "more than one line is of right"),
        (lambda text: text.replace("19.00", "10.00"), "has 10 points in the LMS and"),
        (lambda text: text.replace(COLUMN, "Homework (5)"), f"--column {MIXED}='Homework (5)'"),
        (lambda text: text.replace("Student,ID", "Studierende,ID"), "switch it to English for the download"),
        (
            lambda text: canvas_gradebook([Person(f"x{n}", f"Xa Y{n}", n) for n in range(9)], [COLUMN]),
            "0 of 10 lines are of students on this course's roster. Is it the file of another course?",
        ),
    ],
    ids=["duplicate names", "one id twice", "other maximum", "no column", "language", "another course"],
)
def test_a_canvas_file_that_is_not_clear_is_refused_before_anything_is_written(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[str], str], said: str
) -> None:
    roster = "id,name\n" + "".join(f"{person.id},{person.name}\n" for person in PEOPLE)
    course.roster.write_text(roster, "utf-8")
    text = canvas_gradebook(PEOPLE, [COLUMN], maximum=maximum(course)).replace(maximum(course), "19.00")
    text = change(text).replace("19.00", maximum(course))
    assert autograde(course, "export", "--canvas", put(tmp_path / "canvas.csv", text)) == 1
    assert said in capsys.readouterr().err
    assert not (course.root / "export").exists()


def test_a_score_that_waits_for_a_person_stays_here(
    mixed_graded: MixedClass, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    open_by_hand = [row.student for row in rows(course, [MIXED]) if row.by_hand_open]
    assert open_by_hand
    text = canvas_gradebook(PEOPLE, [COLUMN], maximum=maximum(course))
    assert autograde(course, "export", "--canvas", put(tmp_path / "canvas.csv", text)) == 0
    assert f"a question waits for a person: {', '.join(sorted(open_by_hand)[:3])}" in capsys.readouterr().out
    read = canvas_reads((course.root / "export" / "canvas.csv").read_text("utf-8"))
    assert not {NUMBER[student] for student in open_by_hand} & read.keys()


FAMILY = "family@example.org"


def test_an_address_of_two_students_is_nobody_s(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The roster's names tell the lines apart; where a line has another name, no score is given to either."""
    shared = ("right", "wrong")
    addresses = {person.id: FAMILY if person.id in shared else f"{person.id}@example.org" for person in PEOPLE}
    roster = [f"{person.id},{person.name},{addresses[person.id]}\n" for person in PEOPLE]
    course.roster.write_text(f"id,name,email\n{''.join(roster)}", "utf-8")
    text = moodle_worksheet(PEOPLE, maximum=maximum(course))
    for person in PEOPLE:
        own = f"{person.id},{person.id}@example.org"
        text = text.replace(own, f",{FAMILY if person.id in shared else f'{person.id}@example.org'}")
    assert autograde(course, "export", "--moodle", put(tmp_path / "w.csv", text)) == 0
    read = moodle_reads((course.root / "export" / f"moodle-{MIXED}.csv").read_text("utf-8"))
    assert {number: float(grade) for number, grade in read.items()} == {
        NUMBER[student]: score for student, score in scores(course).items()
    }
    assert (
        autograde(course, "export", "--moodle", put(tmp_path / "w.csv", text.replace("Ada Love", "Ada B. Love"))) == 1
    )
    assert "several students of the roster have the address of Ada B. Lovelace" in capsys.readouterr().err


@pytest.mark.parametrize("score", [0.0, 7.005, 15.0, 100.0, 9999.994, 12345.67, 99999.99, 123456.78, 1234567.5])
def test_a_score_that_was_written_no_longer_differs(score: float) -> None:
    assert abs(float(points_text(score)) - score) <= 0.0051
    assert not _differs(points_text(score), score)
    assert not _differs(points_text(score).replace(".", ","), score)
    assert _differs(points_text(score + 0.01), score)
