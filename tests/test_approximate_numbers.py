"""Numbers behind `≈` in a notebook may differ a little from run to run, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import approximate_numbers
from helpers.approximate_numbers import allowed, differing


def printed(text: str) -> list[dict[str, object]]:
    return [{"output_type": "stream", "name": "stdout", "text": text}]


@pytest.mark.parametrize(("number", "limit"), [("0.40", 0.1), ("0.02", 0.03), ("88", 22.0), ("-1.0", 0.3), ("3", 3.0)])
def test_a_number_may_be_off_by_a_quarter_or_three_of_its_last_digit(number: str, limit: float) -> None:
    assert allowed(number) == pytest.approx(limit)


def test_a_number_that_is_further_off_is_named() -> None:
    stored = printed("loss ≈ 0.40, accuracy ≈ 93")
    assert differing(printed("loss ≈ 0.45, accuracy ≈ 95"), stored) == []
    assert differing(printed("loss ≈ 0.55, accuracy ≈ 95"), stored) == [
        "≈ 0.55 is further than 0.1 from the stored ≈ 0.40"
    ]


def test_nbval_refuses_a_number_that_is_too_far(pytester: pytest.Pytester) -> None:
    import nbformat

    stored = [nbformat.v4.new_output("stream", text="loss ≈ 0.40\n")]
    cells = [
        nbformat.v4.new_code_cell(f'print("loss ≈ {now}")', outputs=stored, execution_count=1)
        for now in ("0.45", "0.70")
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), pytester.path / "two.ipynb")
    pytester.makefile(".cfg", nbval="[measured]\nregex: ≈ [-+]?\\d+(\\.\\d+)?\nreplace: ≈ NUMBER\n")
    helpers = Path(approximate_numbers.__file__).parents[1]
    pytester.makeconftest(
        f"import sys; sys.path.insert(0, {str(helpers)!r})\n"
        "from helpers import approximate_numbers\napproximate_numbers.install()"
    )
    finished = pytester.runpytest_subprocess("--nbval", "--nbval-sanitize-with", "nbval.cfg", "two.ipynb")
    finished.assert_outcomes(passed=1, failed=1)
