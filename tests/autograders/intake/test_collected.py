"""Everything handed in is noted; what may be another's waits for a person; late is late, whoever says so."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import autograde, copy_course, kept_assignments
from helpers.submissions import CLIP, FIRST, SECOND, cell_of, edited, handed_in
from test_collect import light, packed, run, submitted, write_tree, zipped

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.intake.confirm import confirm, waiting
from autograders.intake.notes import read_not_placed, read_note
from autograders.results.class_tables import write_csv
from autograders.results.rows import rows

pytestmark = pytest.mark.slow

__all__ = ["light"]  # the fixture

MOODLE = "{name}_{number}_assignsubmission_file_"
ADA = MOODLE.format(name="Ada L", number=1)


@pytest.fixture
def good(released: Course) -> bytes:
    return json.dumps(handed_in(released)).encode()


@pytest.fixture
def blank(released: Course) -> bytes:
    return released.notebook("release", FIRST).read_bytes()


def other(content: bytes, word: str = "another") -> bytes:
    """The same notebook with another answer."""

    def change(nb: dict[str, object]) -> None:
        cell_of(nb, CLIP)["source"] = f"def clip_by_global_norm(*arguments):\n    return {word!r}"

    return json.dumps(edited(json.loads(content), change)).encode()


def archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    zipped(file, members)
    return file.getvalue()


# --- everything handed in has a record, a state and a reason ------------------------------------------------------

NOT_NOTEBOOKS: dict[str, tuple[dict[str, bytes], str]] = {
    "PDF": ({"report.pdf": b"%PDF-1.7"}, "report.pdf: it is a PDF"),
    "empty file": ({"03a.ipynb": b"", "x.docx": b""}, "x.docx: the file is empty"),
    "script": ({"answer.py": b"print()"}, "answer.py: it is a Python script"),
    "zip of a PDF": ({"work.zip": archive({"deep/report.pdf": b"%PDF"})}, "report.pdf: it is a PDF"),
    "empty zip": ({"work.zip": archive({})}, "work.zip: the archive is empty"),
    "damaged zip": ({"work.zip": b"PK\x03\x04" + b"x" * 99}, "not a zip archive"),
    "zips in zips": (
        {"a.zip": archive({"b.zip": archive({"c.zip": archive({"x.ipynb": b"{}"})})})},
        "an archive in an archive in an archive",
    ),
    "other archive": ({"work.rar": b"Rar!"}, "an archive of another kind than zip"),
    "web page": ({"onlinetext.html": b"<p>my answer"}, "onlinetext.html: it is an HTML page"),
    "no ending": ({"notebook": b"{}"}, "it is no notebook"),
    "damaged packed file": ({"s.zip": archive({"manifest.json": b"{"})}, "not a file made by"),
    "hostile name": ({"w.zip": archive({"../../evil.pdf": b"x"})}, "leads out of the archive"),
}


@pytest.fixture
def course_of_files(released: Course, tmp_path: Path) -> tuple[Course, Path]:
    """A class in which each student handed in something that is no notebook, as an LMS exports it."""
    course = copy_course(released, tmp_path / "course")
    students = [f"s{number:02d}" for number in range(len(NOT_NOTEBOOKS))]
    names = [f"Student {chr(65 + number)}" for number in range(len(NOT_NOTEBOOKS))]
    lines = [f"{student},{name}" for student, name in zip(students, names, strict=True)]
    course.roster.write_text("\n".join(["id,name", *lines, "good,Good One", "none,No Body"]), "utf-8")
    files = {f"{MOODLE.format(name='Good One', number=99)}/x.ipynb": json.dumps(handed_in(released)).encode()}
    for number, (name, (members, _)) in enumerate(zip(names, NOT_NOTEBOOKS.values(), strict=True)):
        files |= {f"{MOODLE.format(name=name, number=number)}/{file}": content for file, content in members.items()}
    zipped(tmp_path / "export.zip", files)
    return course, tmp_path / "export.zip"


def test_what_is_no_notebook_has_a_note_a_state_a_reason_and_a_page(course_of_files: tuple[Course, Path]) -> None:
    course, export = course_of_files
    place = ("--assignment", FIRST)
    assert autograde("collect", export, *place, course=course).code == 3
    assert autograde("grade", "--quiet", *place, course=course).code == 3
    assert autograde("feedback", "--quiet", *place, course=course).code == 0
    found = {row.student: row for row in write_csv(course, [FIRST])}
    for number, (name, (_, reason)) in enumerate(NOT_NOTEBOOKS.items()):
        student = f"s{number:02d}"
        note = read_note(course, FIRST, student)
        assert note is not None, name
        assert reason in "; ".join(note.remarks), name
        assert found[student].state == "unreadable", name
        assert reason in found[student].reason, name
        page = course.notebook("feedback", FIRST, student).with_suffix(".html").read_text("utf-8")
        assert "<strong>unreadable</strong>" in page, name
        assert reason.split(": ")[-1] in page, name
    assert (found["good"].state, found["none"].state) == ("graded", "missing")
    assert not (course.root.parent / "evil.pdf").exists()
    kept = course.step("submitted", "s00", FIRST) / "handed-in report.pdf"
    assert kept.read_bytes() == b"%PDF-1.7"


def test_a_file_beside_the_notebook_is_told_in_table_and_feedback(released: Course, tmp_path: Path) -> None:
    course = copy_course(released, tmp_path / "course")
    course.roster.write_text("id,name\nada,Ada L\n", "utf-8")
    work = archive({"x.ipynb": json.dumps(handed_in(released)).encode(), "data/helper.py": b"a = 1", ".DS_Store": b"x"})
    export = write_tree(tmp_path / "in", {f"{ADA}/work.zip": work})
    assert main(["collect", str(export), "--course", str(course.root)]) == 0
    assert main(["grade", "--quiet", "--workers", "1", "--course", str(course.root), "--assignment", FIRST]) == 0
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", FIRST]) == 0
    (row,) = write_csv(course, [FIRST])
    assert row.state == "graded"
    assert "data/helper.py: it is a Python script" in row.reason
    assert "DS_Store" not in row.reason
    page = course.notebook("feedback", FIRST, "ada").with_suffix(".html").read_text("utf-8")
    assert "data/helper.py: it is a Python script" in page


def test_a_notebook_handed_in_later_replaces_what_was_none(light: Course, good: bytes, tmp_path: Path) -> None:
    light.roster.write_text("id\nada\n", "utf-8")
    run(light, write_tree(tmp_path / "1", {"ada/03a.pdf": b"%PDF"}))
    folder = light.step("submitted", "ada", FIRST)
    assert [path.name for path in folder.iterdir()] == ["handed-in 03a.pdf"]
    run(light, write_tree(tmp_path / "2", {"ada/03a.ipynb": good}))
    assert [path.name for path in folder.iterdir()] == [f"{FIRST}.ipynb"]
    assert [path.name for path in (light.root / "attempts" / "ada" / FIRST).iterdir()] == ["handed-in 03a.pdf"]
    run(light, write_tree(tmp_path / "3", {"ada/03a.pdf": b"%PDF"}))
    assert submitted(light) == {("ada", FIRST): good}


def test_a_file_that_is_nobodys_has_a_row_until_it_is_placed(course: Course, good: bytes, tmp_path: Path) -> None:
    course.roster.write_text("id\nada\n", "utf-8")
    inbox = write_tree(tmp_path / "in", {"who\x1b.ipynb": good, "letter.docx": b"x"})
    run(course, inbox)
    found = [row for row in write_csv(course, [FIRST]) if row.state == "not placed"]
    assert [(row.student, row.score) for row in found] == [("", None), ("", None)]
    assert "no id in" in " ".join(row.reason for row in found)
    (tmp_path / "mapping.csv").write_text("file,id\nwho*,ada\nletter.docx,ada\n", "utf-8")
    run(course, inbox, mapping=tmp_path / "mapping.csv")
    assert read_not_placed(course) == []
    assert "letter.docx" in str(read_note(course, FIRST, "ada"))


# --- whose is it? ------------------------------------------------------------------------------------------------


def inbox(folder: Path, **files: bytes) -> Path:
    return write_tree(folder, {f"{name}.zip": content for name, content in files.items()})


def test_a_packed_file_of_another_name_replaces_nothing_until_a_person_says_so(
    course: Course, good: bytes, tmp_path: Path
) -> None:
    run(course, inbox(tmp_path / "1", a=packed("ada", good, name="Ada", submitted="2026-03-01 12:00:00 UTC")))
    forged = other(good)
    found = run(course, inbox(tmp_path / "2", b=packed("ada", forged, name="Eve", submitted="2026-03-02 12:00:00 UTC")))
    assert submitted(course) == {("ada", FIRST): good}
    assert "different hands" in str(found["b.zip"].problem)
    (row,) = [row for row in rows(course, [FIRST]) if row.student == "ada"]
    assert (row.state, row.score) == ("to confirm", None)
    assert main(["feedback", "--quiet", "--course", str(course.root)]) == 0
    page = course.notebook("feedback", FIRST, "ada").with_suffix(".html").read_text("utf-8")
    assert "<strong>to confirm</strong>" in page
    assert main(["confirm", "--course", str(course.root)]) == 3
    confirm(course, FIRST, "ada", 1)
    assert submitted(course) == {("ada", FIRST): forged}
    assert [path.read_bytes() for path in course.root.glob(f"attempts/ada/{FIRST}/*")] == [good]
    assert waiting(course, kept_assignments()) == []
    run(course, tmp_path / "1")
    assert waiting(course, kept_assignments()) == [], "what a person rejected is not asked again"
    assert submitted(course) == {("ada", FIRST): forged}


def test_a_person_may_keep_what_counted_before(course: Course, good: bytes, tmp_path: Path) -> None:
    run(course, inbox(tmp_path / "1", a=packed("ada", good, name="Ada")))
    run(course, inbox(tmp_path / "2", b=packed("ada", other(good), name="Eve")))
    with pytest.raises(CourseError, match="choose 0 to 1"):
        confirm(course, FIRST, "ada", 7)
    arguments = ["confirm", "--course", str(course.root), "--student", "ada", "--file", "0"]
    assert main(arguments) == 0
    assert submitted(course) == {("ada", FIRST): good}
    assert main(arguments) == 1
    assert "to confirm" not in [row.state for row in rows(course, [FIRST])]


def test_what_waits_goes_on_waiting_when_only_the_other_notebook_was_settled(
    light: Course, good: bytes, tmp_path: Path
) -> None:
    """Ada's file holds one notebook; Eve's, under Ada's id, holds two, of which only one has a rival."""
    second = light.notebook("release", SECOND).read_bytes()

    def both(name: str, content: bytes) -> bytes:
        manifest = {"format": 1, "id": "ada", "name": name, "notebooks": {FIRST: "v", SECOND: "v"}}
        members = {f"{FIRST}.ipynb": content, f"{SECOND}.ipynb": second}
        return archive({"manifest.json": json.dumps(manifest).encode(), **members})

    run(light, inbox(tmp_path / "1", a=packed("ada", good, name="Ada")))
    eves = inbox(tmp_path / "2", b=both("Eve", other(good)))
    run(light, eves)
    assert {each.assignment for each in waiting(light, kept_assignments())} == {FIRST, SECOND}
    confirm(light, FIRST, "ada", 0)
    again = run(light, eves)
    assert submitted(light) == {("ada", FIRST): good}
    assert {each.assignment for each in waiting(light, kept_assignments())} == {SECOND}
    assert any("different hands" in str(item.problem) for item in again.values())
    confirm(light, SECOND, "ada", 1)
    assert submitted(light) == {("ada", FIRST): good, ("ada", SECOND): second}


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        (("a.zip", "Ada"), ("b.zip", "ada"), False),
        (("a.zip", "Ada L"), ("b.zip", "L, Ada"), False),
        (("a.zip", "Ada"), ("b.zip", "Eve"), True),
        (("a.zip", "Ada"), ("b.zip", ""), True),
        (("ada.ipynb", None), ("b.zip", "Ada"), True),
        (("a.zip", "Ada"), ("ada.ipynb", None), True),
        (("ada.ipynb", None), ("ada (1)/ada.ipynb", None), False),
        ((f"{ADA}/x.ipynb", None), ("b.zip", "Ada L"), True),
        ((f"{ADA}/x.ipynb", None), (f"{ADA}/y.zip", "E"), False),
        (("a.zip", "Ada"), (f"{ADA}/y.zip", "Eve"), False),
    ],
)  # fmt: skip
def test_who_says_whose_it_is_decides_whether_a_person_is_asked(
    light: Course,
    good: bytes,
    tmp_path: Path,
    first: tuple[str, str | None],
    second: tuple[str, str | None],
    asked: bool,
) -> None:
    """By what an LMS says a student's file is taken; what a file says of itself does not go before another's work."""
    light.roster.write_text("id,name\nada,Ada L\n", "utf-8")
    for number, (file, name) in enumerate((first, second)):
        content = other(good, str(number))
        made = content if name is None else packed("ada", content, name=name, submitted="2026-03-01 12:00:00 UTC")
        run(light, write_tree(tmp_path / str(number), {file: made}))
    assert bool(waiting(light, kept_assignments())) == asked
    assert submitted(light) == {("ada", FIRST): other(good, "0" if asked else "1")}


def test_of_two_hands_in_one_run_neither_counts(course: Course, good: bytes, tmp_path: Path) -> None:
    files = {"a": packed("ada", good, name="Ada"), "b": packed("ada", other(good), name="Eve")}
    found = run(course, inbox(tmp_path / "in", **files))
    assert submitted(course) == {}
    assert all("different hands" in str(item.problem) for item in found.values())
    (row,) = [row for row in rows(course, [FIRST]) if row.student == "ada"]
    assert row.state == "to confirm"
    (one,) = waiting(course, kept_assignments())
    number = 1 + [held.origin for held in one.note.held].index("the file itself, packed by ada")
    confirm(course, FIRST, "ada", number)
    assert submitted(course) == {("ada", FIRST): good}


def test_a_students_zip_cannot_speak_as_the_lms(light: Course, good: bytes, tmp_path: Path) -> None:
    light.roster.write_text("id,name\nada,Ada L\neve,Eve E\n", "utf-8")
    forged = archive({f"{ADA}/x.ipynb": good})
    run(
        light,
        write_tree(tmp_path / "in", {"eve.zip": forged, f"{MOODLE.format(name='Eve E', number=2)}/y.zip": forged}),
    )
    assert {student for student, _ in submitted(light)} == {"eve"}


COPIES: dict[str, tuple[Callable[[bytes, bytes], dict[str, bytes]], str]] = {
    "blank beside complete": (lambda good, blank: {f"{FIRST}.ipynb": blank, "mine.ipynb": good}, "good"),
    "in the other order": (lambda good, blank: {"a.ipynb": good, "b.ipynb": blank}, "good"),
    "checkpoint beside it": (
        lambda good, blank: {f"{FIRST}.ipynb": good, f".ipynb_checkpoints/{FIRST}-checkpoint.ipynb": other(good)},
        "good",
    ),
    "broken beside complete": (lambda good, blank: {f"{FIRST}.ipynb": good[:99], "mine.ipynb": good}, "good"),
    "same twice": (lambda good, blank: {"a.ipynb": good, "b/a.ipynb": good}, "good"),
    "two that differ": (lambda good, blank: {"a.ipynb": good, "b.ipynb": other(good)}, "asked"),
    "the right name and a draft": (lambda good, blank: {f"{FIRST}.ipynb": good, "draft.ipynb": other(good)}, "good"),
}


@pytest.mark.parametrize("name", COPIES)
def test_of_copies_in_one_zip_the_complete_one_counts_or_a_person_is_asked(
    light: Course, good: bytes, blank: bytes, tmp_path: Path, name: str
) -> None:
    light.roster.write_text("id,name\nada,Ada L\n", "utf-8")
    make, expected = COPIES[name]
    run(
        light,
        write_tree(tmp_path / "in", {f"{ADA}/w.zip": archive(make(good, blank))}),
    )
    assert submitted(light) == ({("ada", FIRST): good} if expected == "good" else {})
    assert bool(waiting(light, kept_assignments())) == (expected == "asked")


def test_a_blank_notebook_handed_in_later_does_not_count(
    light: Course, good: bytes, blank: bytes, tmp_path: Path
) -> None:
    run(light, write_tree(tmp_path / "1", {"ada.ipynb": good}))
    found = run(light, write_tree(tmp_path / "2", {"ada.ipynb": blank}))
    assert submitted(light) == {("ada", FIRST): good}
    assert "the notebook from before still counts" in " ".join(found["ada.ipynb"].notes)
    assert [path.read_bytes() for path in light.root.glob(f"attempts/ada/{FIRST}/*")] == [blank]


def test_ids_that_nobody_knows_are_taken_within_limits(
    light: Course, blank: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograders.intake.placement._MOST_BYTES", len(blank) + 999)
    monkeypatch.setattr("autograders.intake.placement._MOST_STUDENTS", 5)
    padded = blank + b" " * 1000
    large = write_tree(tmp_path / "large", {f"student{number}.ipynb": padded for number in range(18)})
    found = run(light, large)
    assert submitted(light) == {}
    assert all("on no roster" in str(item.problem) for item in found.values())
    many = write_tree(tmp_path / "many", {f"student{number}.ipynb": blank for number in range(18)})
    assert sum(item.problem is None for item in run(light, many).values()) == 5
    light.roster.write_text("id\n" + "\n".join(f"student{number}" for number in range(18)), "utf-8")
    assert all(item.problem is None for item in run(light, large).values())


# --- late ----------------------------------------------------------------------------------------------------------

DUE = "assignment,due,late_penalty\n{name},{due},zero\n"
WORKSHEET = (
    "Identifier,Full name,Email address,Status,Grade\n"
    "Participant 101,Ada L,a@x,Submitted for grading - 2 hours 5 mins late,\n"
    "Participant 102,Ben N,b@x,Submitted for grading,\n"
)


def class_by_canvas(course: Course, good: bytes, to: Path, late: str) -> None:
    course.roster.write_text("id,name\nada,Ada L\nben,Ben N\n", "utf-8")
    run(course, write_tree(to, {f"lada{late}_101_555_x.ipynb": good, "nben_102_556_x.ipynb": good}))


def class_by_moodle(course: Course, good: bytes, to: Path, late: str) -> None:
    course.roster.write_text("id,name\nada,Ada L\nben,Ben N\n", "utf-8")
    files = {
        f"{MOODLE.format(name=name, number=number)}/x.ipynb": good for name, number in (("Ada L", 101), ("Ben N", 102))
    }
    (to / "w").mkdir(parents=True)
    (to / "w" / "worksheet.csv").write_text(
        WORKSHEET if late else WORKSHEET.replace("- 2 hours 5 mins late", ""), "utf-8"
    )
    run(course, write_tree(to / "in", files), mapping=to / "w" / "worksheet.csv")


DUE_DATE, NO_DUE_DATE = "2026-03-01 12:00 UTC", ""


# Either LMS and either kind of due date once; all pairs of them in `make test-full`.
@pytest.mark.parametrize(
    ("lms", "due"),
    [
        pytest.param(class_by_canvas, DUE_DATE, id="Canvas, due date"),
        pytest.param(class_by_moodle, NO_DUE_DATE, id="Moodle, no due date"),
        pytest.param(class_by_canvas, NO_DUE_DATE, id="Canvas, no due date", marks=pytest.mark.full),
        pytest.param(class_by_moodle, DUE_DATE, id="Moodle, due date", marks=pytest.mark.full),
    ],
)
def test_late_is_late_when_the_lms_says_so(
    course: Course, good: bytes, tmp_path: Path, lms: Callable[..., None], due: str
) -> None:
    (course.root / "assignments.csv").write_text(DUE.format(name=FIRST, due=due), "utf-8")
    lms(course, good, tmp_path / "in", "_LATE")
    arguments = ["--quiet", "--course", str(course.root), "--assignment", FIRST]
    assert main(["grade", "--workers", "1", *arguments]) == 0
    found = {row.student: row for row in write_csv(course, [FIRST])}
    assert (found["ada"].state, found["ben"].state) == ("late", "graded")
    assert (found["ada"].score, found["ben"].score) == (0.0 if due else 16.0, 16.0)
    assert "marks it as handed in late" in found["ada"].reason
    assert main(["feedback", *arguments]) == 0
    assert "marks it as handed in late" in course.notebook("feedback", FIRST, "ada").with_suffix(".html").read_text(
        "utf-8"
    )
    if lms is class_by_canvas:
        lms(course, good, tmp_path / "again", "")
        assert main(["grade", "--workers", "1", *arguments]) == 0
        found = {row.student: row for row in write_csv(course, [FIRST])}
        assert (found["ada"].state, found["ada"].score) == ("graded", 16.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{FIRST},2026-03-01 12:00,zero", "with the zone"),
        (f"{FIRST},2026-03-01 12:00 PDT,zero", "with the zone"),
        (f"{FIRST},2026-03-01 12:00 Europe/Nowhere,", "with the zone"),
        ("03a,2026-03-01 12:00 UTC,zero", "no assignment '03a'; there are"),
    ],
)
def test_a_due_date_without_a_zone_is_asked_for_before_anything_is_taken(
    light: Course, good: bytes, tmp_path: Path, line: str, message: str
) -> None:
    (light.root / "assignments.csv").write_text(f"assignment,due,late_penalty\n{line}\n", "utf-8")
    with pytest.raises(CourseError, match=message):
        run(light, write_tree(tmp_path / "in", {"ada.ipynb": good}))
    assert submitted(light) == {}


@pytest.mark.parametrize(
    "zone", ["UTC", "Z", "+0100", "-05:00", "Europe/Berlin", "America/Argentina/Buenos_Aires", "CET"]
)
def test_a_zone_that_is_known_is_taken(light: Course, good: bytes, tmp_path: Path, zone: str) -> None:
    (light.root / "assignments.csv").write_text(DUE.format(name=SECOND, due=f"2026-03-01 12:00 {zone}"), "utf-8")
    run(light, write_tree(tmp_path / "in", {"ada.ipynb": good}))
    assert submitted(light)


def test_a_mappings_time_without_a_zone_is_refused(light: Course, good: bytes, tmp_path: Path) -> None:
    (tmp_path / "mapping.csv").write_text("file,id,submitted\nx.ipynb,ada,2026-03-01 10:00\n", "utf-8")
    with pytest.raises(CourseError, match="with the zone"):
        run(light, write_tree(tmp_path / "in", {"x.ipynb": good}), mapping=tmp_path / "mapping.csv")
    (tmp_path / "mapping.csv").write_text("file,id,late\nx.ipynb,ada,yes\n", "utf-8")
    run(light, tmp_path / "in", mapping=tmp_path / "mapping.csv")
    note = read_note(light, FIRST, "ada")
    assert note is not None
    assert note.late == "the mapping"
