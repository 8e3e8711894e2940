"""Every file that has ever stopped a grader, beside two innocent students: collected and graded in one run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import autograde, copy_course
from helpers.hostile_files import INNOCENT, NOTEBOOKS, class_files
from helpers.submissions import ACCUMULATE, CLIP, FIRST, handed_in

from autograders.course import Course
from autograders.grading.journal import read_record
from autograders.results.row import ScoreRow
from autograders.results.rows import rows
from autograders.sandbox.jail import why_no_walls

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_no_walls() is not None, reason=f"some of these would hit this machine: {why_no_walls()}"),
]
HARMLESS = {"no-gradients", "float64", "patched", "forged-count", "forged-outputs", "surrogate", "markup"}
"""Their answers are right and so is their score; what they do besides costs nothing."""
LATIN_1 = os.fsdecode(b"\xdcbung 3.ipynb")


@pytest.fixture(scope="module")
def hostile(released: Course, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, list[ScoreRow]]:
    """The class after `collect` and `grade`, and its rows."""
    folder = tmp_path_factory.mktemp("hostile")
    course = copy_course(released, folder / "course")
    for path, content in class_files(handed_in(course)).items():
        target = folder / "export" / path
        target.parent.mkdir(parents=True)
        target.write_bytes(content)
    odd = folder / "export" / "latin" / LATIN_1
    odd.parent.mkdir()
    odd.write_bytes((folder / "export" / INNOCENT[0] / f"{FIRST}.ipynb").read_bytes())
    ids = sorted({path.name for path in (folder / "export").iterdir() if path.name.isprintable()})
    course.roster.write_text("id\n" + "\n".join([*ids, "absent"]) + "\n", "utf-8")
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    from helpers.command_line import run

    collected = run(["collect", str(folder / "export"), "--course", str(course.root)], strict)
    assert collected.code in (0, 3), collected.err
    graded = autograde("grade", "--quiet", "--assignment", FIRST, course=course)
    assert graded.code in (3, 4), graded.out + graded.err
    assert "Traceback" not in collected.err + graded.err
    assert autograde("feedback", "--quiet", "--assignment", FIRST, course=course).code in (0, 3)
    assert autograde("gradebook", "--assignment", FIRST, course=course).code in (0, 3, 4)
    return course, rows(course, [FIRST])


def test_the_innocent_have_exactly_their_scores(hostile: tuple[Course, list[ScoreRow]]) -> None:
    course, found = hostile
    for student in (*INNOCENT, "latin"):
        record = read_record(course, FIRST, student)
        assert record is not None
        assert {name: verdict["points"] for name, verdict in record.questions.items()} == {ACCUMULATE: 8, CLIP: 8}
        assert next(row for row in found if row.student == student).state == "graded"


@pytest.mark.parametrize("student", sorted(HARMLESS))
def test_what_does_no_harm_costs_nothing(hostile: tuple[Course, list[ScoreRow]], student: str) -> None:
    record = read_record(hostile[0], FIRST, student)
    assert record is not None
    assert {name: verdict["points"] for name, verdict in record.questions.items()} == {ACCUMULATE: 8, CLIP: 8}


@pytest.mark.parametrize("student", sorted(NOTEBOOKS.keys() - HARMLESS))
def test_the_other_answer_keeps_its_points_where_the_notebook_can_be_read(
    hostile: tuple[Course, list[ScoreRow]], student: str
) -> None:
    record = read_record(hostile[0], FIRST, student)
    assert record is not None
    if record.questions:
        assert 8 in {verdict["points"] for verdict in record.questions.values()}, record.reason
    else:
        assert record.reason


def test_everybody_has_a_row_with_a_state_and_a_reason(hostile: tuple[Course, list[ScoreRow]]) -> None:
    course, found = hostile
    by_student = {row.student: row for row in found}
    wanted = {line for line in course.roster.read_text("utf-8").splitlines()[1:] if line}
    assert wanted <= set(by_student)
    for student in wanted - {"absent"}:
        assert by_student[student].state != "missing", student
        assert by_student[student].state in ("graded", "late") or by_student[student].reason, student
    table = (course.root / "grades.csv").read_text("utf-8")
    assert "\x1b" not in table


def test_nothing_is_left_on_the_machine(hostile: tuple[Course, list[ScoreRow]]) -> None:
    course, _ = hostile
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(course.root) not in listed
    size = sum(path.lstat().st_size for path in course.root.rglob("*") if path.is_file())
    assert size < 300_000_000
    assert not [path for path in Path("/tmp").glob("lecture-*") if str(course.root) in str(path.resolve())]
