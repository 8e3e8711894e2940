"""The summary at a notebook's end: what this session's visible checks said, and no promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autograders import notebooks
from lecture_lib.notebook import check
from lecture_lib.notebook.check import LATEST
from lecture_lib.notebook.progress import POINTS, progress, show_progress


@pytest.fixture(autouse=True)
def a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(LATEST):
        monkeypatch.delitem(LATEST, name)


def right(y_train, y_val, classes):
    import numpy as np

    y_train, y_val = np.asarray(y_train), np.asarray(y_val)
    shares = np.bincount(y_train, minlength=classes) / len(y_train)
    return (y_val == shares.argmax()).mean(), -np.log(shares[y_val]).mean(), np.log(classes)


def wrong(y_train, y_val, classes):
    return 0.5, 0.5, 0.5


def stub(y_train, y_val, classes): ...


@pytest.mark.parametrize(
    ("function", "reached", "state"), [(right, 4, "right"), (wrong, 0, "not yet"), (stub, 0, "not answered yet")]
)
def test_a_row_says_what_the_visible_check_said(
    function: Callable[..., object], reached: float, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check("03b-baseline", function)
    found = progress("03b")
    assert {name: said for name, _, said in found.rows}["03b-baseline"] == state
    assert found.reached == reached
    assert found.unanswered == (("03b-baseline",) if state == "not answered yet" else ())
    text = repr(found)
    assert f"Visible checks passed: {reached} of 92 points." in text
    assert ("Not answered yet: 03b-baseline." in text) == (state == "not answered yet")


def test_the_latest_check_counts_and_one_that_cannot_run_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    check("03b-baseline", right)
    check("03b-baseline", wrong)
    assert progress("03b").reached == 0
    check("03b-baseline", right)
    with pytest.raises(TypeError):
        check("03b-baseline", right, right)
    assert progress("03b").reached == 0
    assert "not checked in this session" in repr(progress("03b"))


def test_it_promises_nothing_and_names_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress("03a")
    assert shown.reached == 0
    assert shown.checked_by_machine == 94
    for text in (repr(shown), shown._repr_html_()):
        assert "Hidden cases, on other inputs, decide the points, and a text is graded by hand." in text
        assert text.count("text, graded by hand") == 3
        assert "03a-precision" in text
    show_progress("03a")
    assert "03a-clip" in capsys.readouterr().out
    with pytest.raises(KeyError, match="there are: 03a, 03b"):
        progress("03z")


def test_the_points_are_a_hundred_a_notebook() -> None:
    assert {sum(points.values()) for points in POINTS.values()} == {100}


@pytest.mark.parametrize("text", notebooks.text_paths(), ids=lambda text: text.stem)
def test_the_points_are_the_notebooks(text) -> None:
    cells = [cell.metadata.get("nbgrader", {}) for cell in notebooks.from_text(text).cells]
    asked = {meta["grade_id"].removesuffix("-test"): meta["points"] for meta in cells if meta.get("grade")}
    assert list(asked.items()) == list(POINTS[text.stem[:3]].items()), "run `make notebooks`"
