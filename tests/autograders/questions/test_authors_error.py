"""A slip in a question's own code is told by its line, and any other error keeps its traceback."""

from __future__ import annotations

import pytest

from autograders import __main__ as command_line
from autograders.questions.authors_error import authors_line
from autograders.questions.bank import Answer
from autograders.questions.verdict_cache import Result
from autograders.questions.verify import Outcome, Sets
from autograders.release.release_check import WrongVerdicts
from autograders.setting import DESCRIPTIONS, PUBLIC_HALVES

SLIP = "def right(x):\n    return x.maen()\n"


def raised(source: str, filename: str) -> Exception:
    """What running `right(1.0)` of this source raises, as if the file held it."""
    names: dict = {}
    try:
        exec(compile(source, filename, "exec"), names)
        names["right"](1.0)
    except (AttributeError, SyntaxError) as error:
        return error
    raise AssertionError("it ran")


@pytest.mark.parametrize("folder", [DESCRIPTIONS, PUBLIC_HALVES])
def test_a_slip_is_told_by_file_line_and_function(folder):
    line = authors_line(raised(SLIP, str(folder / "centre.py")))
    assert line is not None
    assert "centre.py, line 2, in right: AttributeError: 'float' object has no attribute 'maen'." in line


def test_a_file_that_cannot_be_read_is_told_by_its_line():
    line = authors_line(raised("def right(x)\n    return x\n", str(DESCRIPTIONS / "centre.py")))
    assert line is not None
    assert "centre.py, line 1: SyntaxError: expected ':'" in line


@pytest.mark.parametrize("source", [SLIP, "def right(x)\n"])
def test_other_errors_are_no_authors(source):
    assert authors_line(raised(source, "/somewhere/else.py")) is None


@pytest.mark.parametrize(("filename", "told"), [(str(DESCRIPTIONS / "centre.py"), True), ("/somewhere/else.py", False)])
def test_the_command_ends_with_the_line_alone(monkeypatch, capsys, filename, told):
    error = raised(SLIP, filename)

    class Options:
        command = "verify"

        @staticmethod
        def run(options):
            raise error

    class Parser:
        def parse_args(self, arguments):
            return Options()

    monkeypatch.setattr(command_line, "_parser", Parser)
    if told:
        assert command_line.main([]) == command_line.FAILED
        assert capsys.readouterr().err.startswith("autograde verify: ")
    else:
        with pytest.raises(AttributeError):
            command_line.main([])


@pytest.mark.parametrize(("points", "remedy"), [((0, 0), "mend the answer in"), ((0, 4), "Please report these lines.")])
def test_an_answer_that_differs_on_every_set_is_the_authors_to_mend(points, remedy):
    answer = Answer("right_columns", "def centre(x): ...", 4, None, "column by column")
    results = tuple(Result(each, None, None) for each in points)
    assert remedy in str(WrongVerdicts([Outcome("01a-centre", answer, results, Sets(indices=range(2)))]))
