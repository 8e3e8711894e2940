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
    for name in ("lecture_lib", "autograders", "assets"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
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


def test_a_question_from_its_skeleton_to_its_verdicts(checkout: Path) -> None:
    made = run(checkout, "new-question", "04a-double", "double")
    assert made.returncode == 0, made.stderr
    files = [checkout / match for match in re.findall(rf"wrote {re.escape(str(checkout))}/(\S+):", made.stdout)]
    assert [file.name for file in files] == ["double.py", "double.py", "04a-double.md"]
    for command in (("build", "--questions"), ("verify", "--question", "04a-double")):
        refused = run(checkout, *command)
        assert refused.returncode == 1
        assert "double.py, line 1: what is asked, in one line" in refused.stderr
        assert "04a-double.md, line 3: at least three right answers" in refused.stderr
    for file in files:
        file.write_text(file.read_text("utf-8").replace("FILL IN: ", ""), "utf-8")
    header = (ROOT / "notebooks" / "03a-training-recipe.py").read_text("utf-8").split("# %%")[0]
    cells = question_cells("04a-double", "double").replace("FILL IN: ", "")
    setup = '# %% tags=["setup"]\nimport torch\n\nfrom lecture_lib.notebook import check\n\n'
    (checkout / "notebooks" / "04a-new.py").write_text(f"{header}{setup}{cells}", "utf-8")
    written = run(checkout, "build", "--questions")
    assert written.returncode == 0, written.stderr
    assert "questions/04a-double.json" in written.stdout
    built = run(checkout, "build")
    assert built.returncode == 0, built.stderr
    assert '"04a-double": 2' in (checkout / "lecture_lib/notebook/points.json").read_text("utf-8")
    tried = run(checkout, "verify", "--question", "04a-double", "--sets", "2")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "3 answers on 2 sets of hidden inputs, 0 not as declared" in tried.stdout


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
