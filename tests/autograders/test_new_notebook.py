"""Another notebook costs nothing: it is built, released and listed, and its skeleton says what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, autograde

from autograders import notebooks
from autograders.course import Course
from autograders.new_notebook import write_skeleton
from autograders.notebooks import NotebookError, assignments, build, build_all, not_filled_in
from autograders.release.release import release

pytestmark = pytest.mark.slow

META = {"grade": True, "locked": False, "points": 100, "schema_version": 3, "solution": True, "task": False}


def write_third(folder: Path) -> Path:
    """The text of a whole notebook with one question, graded by hand."""
    header = (ROOT / "notebooks" / "03a-training-recipe.py").read_text("utf-8").split("# %%")[0]
    meta = json.dumps({**META, "grade_id": "04a-p1"})
    text = folder / "04a-third.py"
    text.write_text(
        f"{header}# %% [markdown]\n# # 04a · A third one\n\n"
        '# %% tags=["demo"]\nfrom lecture_lib.notebook import show_progress\n\n'
        f"# %% [markdown] nbgrader={meta}\n# Because the sky is blue, and for no other reason that is known.\n",
        "utf-8",
    )
    return text


def test_a_third_notebook_is_built_and_released_beside_the_others(
    shorter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(shorter, folder)
    names = [path.stem for path in sorted(folder.glob("*.py"))]
    monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)
    build(write_third(folder))
    assert assignments() == [*names, "04a-third"]
    course = Course(tmp_path / "course")
    versions = release(course, assignments(), verify=False)
    assert list(versions) == assignments()
    assert {path.stem for path in (course.bundle / "notebooks").iterdir()} == set(assignments())
    assert "`04a-third.ipynb`" in (course.bundle / "README.md").read_text("utf-8")
    assert "the sky is blue" not in (course.bundle / "notebooks" / "04a-third.ipynb").read_text("utf-8")


def test_the_build_writes_down_what_every_question_is_worth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(notebooks, "POINTS", tmp_path / "points.json")
    text = write_third(tmp_path)
    assert list(build_all()) == [notebooks.notebook_path(text)]
    assert json.loads(notebooks.POINTS.read_text("utf-8")) == {"04a": {"04a-p1": 100}}


def test_a_skeleton_is_refused_until_it_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    text = write_skeleton("04a-transformers")
    assert "# # 04a · " in text.read_text("utf-8")
    missing = not_filled_in(text)
    assert len(missing) > 15
    with pytest.raises(NotebookError) as refused:
        build(text)
    told = str(refused.value)
    assert told.startswith("04a-transformers.py is not filled in, nothing was written.")
    assert "  line 10: the title" in told.splitlines()
    assert all(entry in told for entry in missing)
    assert assignments() == []
    cells = notebooks.from_text(text).cells
    asked = [cell.metadata["nbgrader"]["grade_id"] for cell in cells if "nbgrader" in cell.metadata]
    assert asked == [
        *("04a-first-question", "04a-first", "04a-first-test"),
        *("04a-p1-question", "04a-p1"),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformers", "is not a notebook's name. Give its number and words, such as 04a-transformers."),
        ("../04a-x", "is not a notebook's name"),
        ("03b-again", "03b is the number of 03b-debug-ladder.py. Take another one."),
    ],
)
def test_a_name_that_cannot_be_a_notebooks_is_refused(name: str, message: str) -> None:
    done = autograde("new-notebook", name)
    assert done.code == 1
    assert message in done.err


@pytest.mark.parametrize("text", notebooks.text_paths(), ids=lambda text: text.stem)
def test_nothing_is_left_to_fill_in(text: Path) -> None:
    assert not_filled_in(text) == []
