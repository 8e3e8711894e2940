"""A new question: its skeleton is refused until it is filled in, and then works from the build to the verdict."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from autograders.new_question import question_cells, write_question
from autograders.notebooks import NotebookError

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a question lives in."""
    for name in ("lecture_lib", "autograders", "assets", "binder"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copyfile(path, tmp_path / path.name)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autograders", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def empty_course(checkout: Path) -> Path:
    """The same without a question: another course's checkout before its first one."""
    hidden = checkout / "autograders/questions"
    for folder in (checkout / "lecture_lib/notebook/questions", hidden / "descriptions"):
        for path in folder.iterdir():
            if path.suffix in (".py", ".json") and path.name not in ("__init__.py", "common.py"):
                path.unlink()
    for path in (hidden / "answers").glob("*.md"):
        path.unlink()
    (checkout / "lecture_lib/notebook/points.json").write_text("{}", "utf-8")
    return checkout


ANSWERS = """# Answers to 04a-double

""" + "\n".join(
    f"## {name}\n\n- points: {points}\n- misconception: {mistake}\n\n"
    f"```python\ndef double(x):\n    return {result}\n```\n"
    for name, points, mistake, result in [
        ("right_plain", 2, "none", "x"),
        ("right_sum", 2, "none", "x + 0"),
        ("right_twice", 2, "none", "-(-x)"),
        ("wrong_sign", 0, "sign", "-x"),
        ("wrong_sign_first", 0, "sign", "0 - x"),
        ("wrong_one_more", 0, "none", "x + 1"),
        ("wrong_zero", 0, "none", "0 * x"),
        ("wrong_double", 0, "none", "2 * x"),
        ("wrong_square", 0, "none", "x**2"),
    ]
)


def test_a_course_of_one_question_is_released_graded_and_reported(empty_course: Path) -> None:
    """Nothing but the course's own four folders names a question."""
    made = run(empty_course, "new-question", "04a-double", "double")
    assert made.returncode == 0, made.stderr
    fill_in(empty_course, made.stdout)
    (empty_course / "autograders/questions/answers/04a-double.md").write_text(ANSWERS, "utf-8")
    for command in (
        ("build",),
        ("verify", "--sets", "1"),
        ("release", "--course", "course"),
        ("simulate", "--course", "course", "--students", "10"),
        ("grade", "--course", "course", "--quiet", "--workers", "1"),
        ("feedback", "--course", "course", "--quiet"),
        ("report", "--course", "course"),
        ("gradebook", "--course", "course"),
    ):
        done = run(empty_course, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert '"04a-double": 2' in (empty_course / "lecture_lib/notebook/points.json").read_text("utf-8")
    assert "simulated class: all 10 scores and misconceptions equal the known ones" in done.stdout


def fill_in(checkout: Path, printed: str) -> None:
    """Fill in a skeleton with its own words, and ask the question in a notebook."""
    for match in re.findall(rf"wrote {re.escape(str(checkout))}/(\S+):", printed):
        file = checkout / match
        file.write_text(file.read_text("utf-8").replace("FILL IN: ", ""), "utf-8")
    header = (ROOT / "notebooks" / "03a-training-recipe.py").read_text("utf-8").split("# %%")[0]
    cells = question_cells("04a-double", "double").replace("FILL IN: ", "")
    setup = '# %% tags=["setup"]\nimport torch\n\nfrom lecture_lib.notebook import check\n\n'
    (checkout / "notebooks" / "04a-new.py").write_text(f"{header}{setup}{cells}", "utf-8")


def test_a_skeleton_is_refused_until_it_is_filled_in(checkout: Path) -> None:
    made = run(checkout, "new-question", "04a-double", "double")
    assert made.returncode == 0, made.stderr
    files = [checkout / match for match in re.findall(rf"wrote {re.escape(str(checkout))}/(\S+):", made.stdout)]
    assert [file.name for file in files] == ["double.py", "double.py", "04a-double.md"]
    for command in (("build", "--questions"), ("verify", "--question", "04a-double")):
        refused = run(checkout, *command)
        assert refused.returncode == 1
        assert "double.py, line 1: what is asked, in one line" in refused.stderr
        assert "04a-double.md, line 3: at least three right answers" in refused.stderr
    fill_in(checkout, made.stdout)
    written = run(checkout, "build", "--questions")
    assert written.returncode == 0, written.stderr
    assert "questions/04a-double.json" in written.stdout


@pytest.mark.parametrize(
    ("question", "function", "message"),
    [
        ("clip", "clip", "'clip' cannot be a question's id"),
        ("../03a-clip", "clip", "cannot be a question's id"),
        ("03a-new", "lambda", "'lambda' cannot be a function's name"),
        ("03a-new", "a b", "'a b' cannot be a function's name"),
        ("03a-clip", "clip", "clip.py is there already"),
    ],
)
def test_what_cannot_be_a_question_is_refused(question: str, function: str, message: str) -> None:
    before = sorted(path for path in (ROOT / "autograders/questions").rglob("*.*") if "__pycache__" not in path.parts)
    with pytest.raises(NotebookError, match=re.escape(message)):
        write_question(question, function)
    after = sorted(path for path in (ROOT / "autograders/questions").rglob("*.*") if "__pycache__" not in path.parts)
    assert after == before
