"""A function that is right by its arguments alone is right a second time too, and leaves them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograders.questions.bank import Answer
from autograders.questions.in_process import functions_of, observed
from autograders.questions.question import QUESTIONS
from autograders.questions.verify import Sets
from lecture_lib.notebook.check import check_result
from lecture_lib.notebook.observe import observe
from lecture_lib.notebook.question import Functions, Inputs, PublicQuestion


def next_largest() -> Callable[[list[float]], float]:
    returned: list[float] = []

    def largest(values: list[float]) -> float:
        returned.append(max(value for value in values if value not in returned))
        return returned[-1]

    return largest


def _part(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": functions["largest"](list(inputs["values"]))}


@pytest.mark.parametrize(("repeatable", "value"), [((), 3.0), (("largest",), 2.0)])
def test_the_second_result_counts_and_is_told_apart(repeatable: tuple[str, ...], value: float) -> None:
    question = PublicQuestion("test", "", ("largest",), {"part": _part}, repeatable=repeatable)
    outcome = observe(question, {"largest": next_largest()}, {"values": [1.0, 3.0, 2.0]})["part"]
    assert outcome["value"]["value"] == value
    assert ("again" in outcome) == bool(repeatable)


def test_a_result_that_stays_the_same_is_not_told_apart() -> None:
    question = PublicQuestion("test", "", ("largest",), {"part": _part}, repeatable=("largest",))
    assert observe(question, {"largest": max}, {"values": [1.0, 3.0]})["part"].keys() == {"value"}


REMEMBERS = """
first_groups = make_groups
seen = []


def make_groups(model, body_rate, head_rate, weight_decay):
    groups = first_groups(model, body_rate, head_rate, weight_decay)
    for group in groups:
        group["params"] = [p for p in group["params"] if not any(p is q for q in seen)]
        seen.extend(group["params"])
    return [group for group in groups if group["params"]]
"""


def test_an_answer_that_remembers_what_it_was_given_loses_points_and_is_told_why() -> None:
    question = QUESTIONS["03c-groups"]
    right = next(answer.source for answer in question.answers() if answer.points == question.points)
    functions = functions_of(question, Answer("wrong", right + REMEMBERS, 0, None, ""))
    verdict = question.judge(
        question.draw(Sets.secret, Sets.version, 0),
        [observed(question, functions, question.inputs(Sets.secret, Sets.version, 0))],
    )
    assert verdict.points < question.points
    assert verdict.misconception == "second-call"
    assert any("called a second time" in line.what for line in check_result(question.id, *functions.values()).lines)


def _changes_nothing(values: Any) -> Any:
    return values


def _sorts(values: list[float]) -> float:
    values.sort()
    return values[-1]


def _sorts_a_copy(values: list[float]) -> float:
    return sorted(values)[-1]


def _adds_a_column(values: dict[str, Any]) -> float:
    values["size"] = np.array([0.0])
    return 3.0


def _adds_in_place(values: torch.Tensor) -> float:
    values += 1
    return 3.0


def _changes_the_dtype(values: list[np.ndarray]) -> float:
    values[0] = values[0].astype(np.float32)
    return 3.0


def _makes_it_unreadable(values: list[Any]) -> float:
    values.append(object())
    return 3.0


def _appends(values: list[float]) -> float:
    values.append(0.0)
    return 3.0


def _renames(values: np.ndarray) -> float:
    values[0] = "c"
    return 3.0


@pytest.mark.parametrize(
    ("function", "given", "changes"),
    [
        (_sorts, [1.0, 3.0, 2.0], True),
        (_sorts, [1.0, 2.0, 3.0], False),
        (_sorts_a_copy, [1.0, 3.0, 2.0], False),
        (_adds_a_column, {"day": np.array([np.nan])}, True),
        (_adds_in_place, torch.zeros(2), True),
        (_adds_in_place, torch.zeros(0), False),
        (_changes_the_dtype, [np.zeros(2)], True),
        (_makes_it_unreadable, [1.0], True),
        (_appends, [1.0], True),
        (_renames, np.array(["a", "b"]), True),
        (
            _changes_nothing,
            {"day": np.array([np.nan]), "user": np.array(["a"]), "names": ["a"], "none": None},
            False,
        ),
        (_changes_nothing, torch.nn.Linear(1, 1), False),
    ],
)
def test_a_changed_argument_is_told_whatever_is_returned(
    function: Callable[..., Any], given: Any, changes: bool
) -> None:
    def part(functions: Functions, _: Inputs) -> dict[str, Any]:
        functions["largest"](given)
        return {"value": 3.0}

    question = PublicQuestion("test", "", ("largest",), {"part": part})
    outcome = observe(question, {"largest": function}, {})["part"]
    assert outcome.keys() == ({"overwritten"} if changes else {"value"})
    assert not changes or "largest changes its argument `values`" in outcome["overwritten"]


def test_a_function_that_may_overwrite_is_not_asked() -> None:
    question = PublicQuestion("test", "", ("largest",), {"part": _part}, may_overwrite=("largest",))
    assert observe(question, {"largest": _sorts}, {"values": [1.0, 3.0, 2.0]})["part"].keys() == {"value"}


ADDS_A_COLUMN = """
without = make_split


def make_split(table, deployed_on, val_fraction):
    table["row"] = np.arange(len(table["label"]))
    return without({name: column for name, column in table.items() if name != "row"}, deployed_on, val_fraction)
"""


def test_a_right_split_that_changes_the_table_gets_no_points_and_the_check_says_so() -> None:
    question = QUESTIONS["03b-split"]
    right = next(answer.source for answer in question.answers() if answer.points == question.points)
    functions = functions_of(question, Answer("wrong", f"{right}\nimport numpy as np\n{ADDS_A_COLUMN}", 0, None, ""))
    verdict = question.judge(
        question.draw(Sets.secret, Sets.version, 0),
        [observed(question, functions, question.inputs(Sets.secret, Sets.version, 0))],
    )
    assert verdict.points == 0
    assert verdict.misconception == "overwrites-argument"
    lines = check_result(question.id, *functions.values()).lines
    assert any("changes its argument `table`" in line.what for line in lines)


SORTS = """
def diagnose_curves(train_loss, val_loss):
    train_loss[-5:].sort()
    return "sweet spot", "error-analysis"
"""


def test_a_changed_argument_is_named_before_what_the_few_other_results_look_like() -> None:
    question = QUESTIONS["03b-curves"]
    functions = functions_of(question, Answer("wrong", SORTS, 0, None, ""))
    verdict = question.judge(
        question.draw(Sets.secret, Sets.version, 0),
        [observed(question, functions, question.inputs(Sets.secret, Sets.version, 0))],
    )
    assert verdict.points == 0
    assert verdict.misconception == "overwrites-argument"
