"""Which mistake a judge names: of two at once, of one that is contradicted, and of those that any answer can make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autograders.questions.cases import Case
from autograders.questions.description import Description
from autograders.questions.graded_parts import Graded, Mistake, nested
from autograders.questions.judgement import Judgement
from autograders.questions.question import QUESTIONS
from autograders.questions.seeds import generator


def misconception(described: Description, secret: bytes, give: Callable[[Case], Mapping[str, Any]]) -> str | None:
    """What is named when `give` says what differs from the reference on a case."""
    cases = described.draw_set(generator(secret, "judge", described.id, 0))
    observed = [
        {part: {"value": fields} for part, fields in nested({**described.reference(case), **give(case)}).items()}
        for case in cases
    ]
    return described.judge(cases, observed).misconception


def forms(described: Description) -> dict[str, Callable[[Case], Mapping[str, Any]]]:
    return {name: form for mistake in described.mistakes for name, form in mistake.forms().items()}


def test_of_two_mistakes_in_one_field_the_one_that_explains_a_part_is_named(fresh_secret: bytes) -> None:
    lr = QUESTIONS["03b-lr"].description
    simulate = forms(lr)

    def both(case: Case) -> Mapping[str, Any]:
        return simulate["from-the-top" if case.key["good"] is None else "half-of-noise"](case)

    assert misconception(lr, fresh_secret, simulate["from-the-top"]) == "from-the-top"
    assert misconception(lr, fresh_secret, both) == "half-of-noise", fresh_secret.hex()
    few = replace(lr, mistakes=tuple(mistake for mistake in lr.mistakes if mistake.id != "half-of-noise"))
    assert misconception(few, fresh_secret, both) == "from-the-top", fresh_secret.hex()


def test_a_mistake_is_not_named_where_the_right_value_contradicts_it(fresh_secret: bytes) -> None:
    inspect = QUESTIONS["03b-inspect"].description
    never = forms(inspect)["never-equal"]
    assert misconception(inspect, fresh_secret, never) == "never-equal"
    kept = [mistake for mistake in inspect.mistakes if mistake.id in ("never-alarm", "always-alarm")]
    assert misconception(replace(inspect, mistakes=tuple(kept)), fresh_secret, never) == "corner-case"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("wrong-dtype", lambda array: array.astype(np.float64)),
        ("wrong-shape", lambda array: array[None]),
        ("nothing-returned", lambda array: None),
        ("wrong-size", lambda array: array[:-1]),
        (None, lambda array: array + 1),
        (None, lambda array: array[None] + 1),
    ],
)
def test_mistakes_that_any_answer_can_make_are_named(
    fresh_secret: bytes, name: str | None, change: Callable[[np.ndarray], Any]
) -> None:
    register = QUESTIONS["03a-register"].description
    path = "registered.parameters"

    def changed(case: Case) -> Mapping[str, Any]:
        return {path: [change(array) for array in register.reference(case)[path]]}

    assert misconception(register, fresh_secret, changed) == name


def test_an_entry_too_many_is_named_where_those_before_it_are_right(fresh_secret: bytes) -> None:
    register = QUESTIONS["03a-register"].description
    path = "registered.parameters"

    def longer(case: Case) -> Mapping[str, Any]:
        arrays = register.reference(case)[path]
        return {path: [*[array.astype(np.float64) for array in arrays], arrays[0]]}

    assert misconception(register, fresh_secret, longer) == "wrong-size"


def test_a_part_for_special_cases_alone_is_a_corner_case_where_the_others_are_right(fresh_secret: bytes) -> None:
    mixup = replace(QUESTIONS["03d-mixup"].description, mistakes=())

    def wrong_on(*kinds: str) -> Callable[[Case], Mapping[str, Any]]:
        return lambda case: {"cutmix.images": mixup.reference(case)["cutmix.images"] + 5 * (case.kind in kinds)}

    assert misconception(mixup, fresh_secret, wrong_on("box at the border")) == "corner-case"
    assert misconception(mixup, fresh_secret, wrong_on("box at the border", "box inside")) is None


def judgement(expected: list[Any], observed: list[Mapping[str, Any]], *mistakes: Mistake) -> Judgement:
    """Of a question with one field, `answer.best`."""
    return Judgement(
        graded=(Graded("best", 1.0, ("answer.best",)),),
        mistakes=mistakes,
        tolerance=1e-6,
        cases=[Case("best", {})] * len(expected),
        expected=[{"answer": {"best": value}} for value in expected],
        observations=[{"answer": outcome} for outcome in observed],
    )


@pytest.mark.parametrize(
    ("value", "outcome", "message"),
    [
        (None, {"value": {"best": None}}, ""),
        (None, {"value": {"best": np.array(3.0)}}, "the value is wrong"),
        (None, {"value": {}}, "no best was returned"),
        (None, {"raised": "ValueError: x"}, "your code raised ValueError: x"),
        (3.0, {"value": {"best": None}}, "no best was returned"),
    ],
    ids=["right", "number for none", "missing", "raised", "none for a number"],
)
def test_none_is_right_where_it_is_expected(value: float | None, outcome: Mapping[str, Any], message: str) -> None:
    (part,) = judgement([value], [outcome]).parts
    assert (part.points, part.message) == ((0.0, message) if message else (1.0, "right on 1 hidden cases (best)"))


ALWAYS_THE_SAME = Mistake("always-the-same", "the same on every case", "it", constant=("answer.best",))
NONE = {"value": {"best": None}}


@pytest.mark.parametrize(
    ("expected", "name"),
    [([None, 3.0], "always-the-same"), ([2.0, 3.0], "nothing-returned")],
    ids=["expected somewhere", "never expected"],
)
def test_none_is_a_constant_answer_only_where_it_is_an_answer(expected: list[Any], name: str) -> None:
    assert judgement(expected, [NONE, NONE], ALWAYS_THE_SAME).misconception == name


def test_none_where_it_is_right_contradicts_a_mistake() -> None:
    never_none = Mistake("never-none", "always a number", "it", lambda case: {"answer.best": 5.0})
    outcomes = [NONE, {"value": {"best": np.array(5.0)}}]
    judged = judgement([None, 3.0], outcomes)
    assert judged._contradicts([{"answer": {"best": 5.0}}, {"answer": {"best": 5.0}}])
    assert judgement([None, 3.0], outcomes, never_none).misconception != "never-none"
