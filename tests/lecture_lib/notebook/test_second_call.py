"""A function that is right by its arguments alone is right a second time too."""

from __future__ import annotations

from typing import Any

import pytest

from autograders.questions.bank import Answer
from autograders.questions.in_process import functions_of, observed
from autograders.questions.question import QUESTIONS
from autograders.questions.verify import Sets
from lecture_lib.notebook.check import check_result
from lecture_lib.notebook.observe import observe
from lecture_lib.notebook.question import Functions, Inputs, PublicQuestion


def largest(values: list[float]) -> float:
    return values.pop(values.index(max(values)))


def _part(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": functions["largest"](list(inputs["values"]))}


@pytest.mark.parametrize(("repeatable", "value"), [((), 3.0), (("largest",), 2.0)])
def test_the_second_result_counts_and_is_told_apart(repeatable: tuple[str, ...], value: float) -> None:
    question = PublicQuestion("test", "", ("largest",), {"part": _part}, repeatable=repeatable)
    outcome = observe(question, {"largest": largest}, {"values": [1.0, 3.0, 2.0]})["part"]
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
