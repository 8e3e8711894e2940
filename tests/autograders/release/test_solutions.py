"""Solutions for students: folded under each question, and not before the last of them has handed in."""

from __future__ import annotations

import shutil
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course, ReleaseError
from autograders.release.solutions import last_due, write_solutions

pytestmark = pytest.mark.slow

FIRST, SECOND = "03a-training-recipe", "03b-debug-ladder"
DUE = datetime(2026, 3, 1, 22, 59)


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    """A released course whose first assignment is due."""
    shutil.copytree(released.root, tmp_path / "course")
    copy = Course(tmp_path / "course")
    (copy.root / "assignments.csv").write_text(f"assignment,due\n{FIRST},2026-03-01 23:59 +0100\n", "utf-8")
    return copy


def extended(course: Course, hours: int) -> None:
    with Gradebook(course.gradebook) as gradebook:
        gradebook.add_student("ada")
        gradebook.update_or_create_submission(FIRST, "ada", extension=timedelta(hours=hours))


def test_each_question_has_its_solution_under_it_and_nothing_is_graded(course: Course) -> None:
    folder = write_solutions(course, [FIRST], now=DUE + timedelta(minutes=1))
    nb = notebooks.read(folder / f"{FIRST}-solutions.ipynb")
    released = notebooks.read(course.notebook("release", FIRST))
    answers = [c.metadata.nbgrader.grade_id for c in released.cells if c.metadata.get("nbgrader", {}).get("solution")]
    folded = [cell for cell in nb.cells if cell.id.startswith("solution-")]
    assert [cell.id.removeprefix("solution-") for cell in folded] == answers
    assert [cell.source for cell in nb.cells if cell not in folded] == [cell.source for cell in released.cells]
    (clip,) = (cell.source for cell in folded if cell.id == "solution-03a-clip")
    assert clip.startswith("<details><summary>A solution of 03a-clip</summary>\n\n```python\ndef clip_by_global_norm")
    assert "return [factor * tensor for tensor in gradients], global_norm" in clip
    whole = "\n".join(cell.source for cell in nb.cells)
    assert "BEGIN" not in whole
    assert "HIDDEN" not in whole
    assert not any("nbgrader" in cell.metadata for cell in nb.cells)
    assert "lecture" not in nb.metadata
    position = nb.cells.index(next(cell for cell in folded if cell.id == "solution-03a-clip"))
    assert nb.cells[position - 1].source.startswith('check("03a-clip"')
    assert zipfile.ZipFile(f"{folder}.zip").namelist()[-1] == f"solutions/{FIRST}-solutions.ipynb"


def test_before_the_last_due_date_they_are_refused_unless_early(course: Course, capsys) -> None:
    with pytest.raises(ReleaseError, match="until 2026-03-01 22:59 UTC, extensions included"):
        write_solutions(course, [FIRST], now=DUE)
    with pytest.raises(ReleaseError, match=f"{SECOND} has no due date"):
        write_solutions(course, [FIRST, SECOND], now=DUE + timedelta(days=1))
    assert not (course.root / "solutions").exists()
    assert write_solutions(course, [FIRST, SECOND], early=True, now=DUE).is_dir()


@pytest.mark.filterwarnings("ignore:Object of type <Submitted")  # nbgrader's own order
def test_an_extension_of_one_student_keeps_them_back(course: Course) -> None:
    assert last_due(course, FIRST) == DUE
    extended(course, 48)
    assert last_due(course, FIRST) == DUE + timedelta(hours=48)
    with pytest.raises(ReleaseError, match="until 2026-03-03 22:59 UTC"):
        write_solutions(course, [FIRST], now=DUE + timedelta(hours=47))


def test_the_command_says_where_they_are(course: Course, capsys) -> None:
    assert main(["release", "--solutions", "--course", str(course.root), "--early"]) == 0
    assert f"for students: {course.root / 'solutions'}" in capsys.readouterr().out
    assert main(["release", "--solutions", "--course", str(course.root)]) == 1
    assert "has no due date" in capsys.readouterr().err
