"""`autograde try`: one file graded by itself, with nothing kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.submissions import CLIP, handed_in

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course

pytestmark = pytest.mark.slow


@pytest.fixture
def file(released: Course, shorter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's notebook under a name that says nothing, in a folder with nothing else."""
    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setenv("LECTURE_WITHOUT_SANDBOX", "1")
    path = tmp_path / "my work [2].ipynb"
    path.write_text(json.dumps(handed_in(released, {CLIP: "wrong_per_parameter"})), "utf-8")
    return path


def test_one_notebook_gets_its_whole_verdict(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    assert main(["try", str(file)]) == 0
    told = capsys.readouterr().out
    assert "03a-clip: 5 of 8" in told
    assert "✗ direction (0 of 3)" in told
    assert "✓ untouched (2 of 2)" in told
    assert "What happened: each tensor was clipped by its own norm" in told
    assert "Look at: how many norms you compute" in told
    assert "03a-accumulate: 0 of" in told
    assert "not answered" in told
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes() == before


def test_one_question_is_enough(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(file), "--question", CLIP]) == 0
    told = capsys.readouterr().out
    assert "03a-clip: 5 of 8" in told
    assert "03a-accumulate:" not in told
    assert main(["try", str(file), "--question", "03a-clipp"]) == 1
    assert "has no question 03a-clipp; it has " in capsys.readouterr().err


EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.mark.parametrize("content", ["no notebook", EMPTY])
def test_a_file_that_holds_nothing_of_the_course_is_refused(
    file: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(content, "utf-8")
    assert main(["try", str(file)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("autograde try: my work [2].ipynb: ")
    assert "Traceback" not in told


def test_a_file_that_is_not_there_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(file.with_name("other.ipynb"))]) == 1
    assert "other.ipynb is not a file: name a notebook" in capsys.readouterr().err
