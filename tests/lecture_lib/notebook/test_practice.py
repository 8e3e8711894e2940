"""The check of a question on cases drawn like the hidden ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from autograders.questions.question import QUESTIONS
from lecture_lib.notebook.check import check_result
from lecture_lib.notebook.registry import find_question

INFINITY_PASSES = """
def check_batch(x, y):
    problems = set()
    values = x.double()
    if x.dim() not in (2, 4): problems.add("x.shape")
    if x.dtype not in (torch.float32, torch.bfloat16): problems.add("x.dtype")
    finite = values[torch.isfinite(values)]
    if bool(values.isnan().any()) or bool((finite.abs() > 10).any()): problems.add("x.range")
    if y.dim() != 1 or len(y) != len(x): problems.add("y.shape")
    if y.dtype != torch.int64: problems.add("y.dtype")
    return problems
"""


def contract(source: str) -> object:
    import torch

    names: dict[str, object] = {"torch": torch}
    exec(source, names)
    return names["check_batch"]


def test_what_hidden_cases_would_find_is_found_by_a_drawn_case() -> None:
    """A fresh author's answer that overlooks infinity: right on every visible case, 2 points less in the verdict."""
    result = check_result("03a-contract", contract(INFINITY_PASSES))  # type: ignore[arg-type]
    assert result.state == "not yet"
    wrong = [line for line in result.lines if line.state != "right"]
    assert wrong
    assert all(line.case.startswith("a further case: ") for line in wrong)


def test_a_right_answer_is_told_how_many_further_cases_agree() -> None:
    right = INFINITY_PASSES.replace("finite = values[torch.isfinite(values)]", "finite = values")
    result = check_result("03a-contract", contract(right))  # type: ignore[arg-type]
    count = len(find_question("03a-contract").practice)
    assert count > 40
    assert result.state == "right"
    assert result.lines[-1].case == f"{count} further cases, drawn like the hidden ones"


def test_practice_cases_say_what_the_reference_gives() -> None:
    described = QUESTIONS["03b-subset"].description
    for case in find_question("03b-subset").practice:
        difference = np.asarray(case.inputs["constant"], float) - np.asarray(case.inputs["losses"], float)
        if np.isfinite(difference).all():
            assert np.isclose(float(case.expected["gain"]["gain"]), difference.mean(), atol=1e-6)
    assert described.practice is not None


def test_a_kernel_that_grades_tries_no_drawn_case() -> None:
    script = (
        "from lecture_lib.notebook.check import check_result, skip_practice\n"
        "from lecture_lib.notebook.registry import find_question\n"
        "import torch\n"
        f"exec({INFINITY_PASSES!r})\n"
        "skip_practice()\n"
        "print(check_result('03a-contract', check_batch).state)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "right"
