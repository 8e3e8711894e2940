"""Every set of hidden cases holds each kind of input that the wording allows and that is not rare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autograders.questions.bank import Answer
from autograders.questions.cases import Case
from autograders.questions.coverage import ALLOWED, common_traits, covering, traits
from autograders.questions.in_process import functions_of, observed
from autograders.questions.question import QUESTIONS, answer_to
from autograders.questions.verify import Sets


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_set_holds_what_is_not_rare_in_the_domain(question: str, fresh_secret: bytes) -> None:
    for asked in QUESTIONS[question].of_each_course()[:1]:
        description = asked.description
        if not description.added:
            pytest.skip("a case takes long to make")
        # An added case has another kind than in the domain.
        common = {trait for trait in common_traits(description.domain) if not trait.startswith("kind: ")}
        for index in range(2):
            cases = description.draw_set(np.random.default_rng([*fresh_secret[:4], index]))
            assert common.difference(*(traits(case) for case in cases)) == set()


def test_without_it_a_set_lacks_some() -> None:
    """No average is drawn of a single list of weights, although the wording allows one."""
    description = QUESTIONS["03d-averages"].description
    common = common_traits(description.domain)
    cases = replace(description, added=0).draw_set(np.random.default_rng(0))
    assert "weights: one entry" in common.difference(*(traits(case) for case in cases))
    assert len(description.draw_set(np.random.default_rng(0))) > len(cases)


def test_an_answer_that_fails_on_an_added_case_alone_loses_points_and_has_a_corner_case() -> None:
    """The first average is left out where there is one tensor only, which no drawn set has."""
    question = QUESTIONS["03d-averages"]
    right = answer_to("03d-averages", "right_loops")
    wrong = f"{right}\n\nall_averages = moving_averages\n\n\n" + (
        "def moving_averages(weights, decay):\n"
        "    return all_averages(weights, decay) if len(weights) > 1 else [0 * weights[0]]\n"
    )
    functions = functions_of(question, Answer("wrong", wrong, 0, None, ""))
    for index in range(3):
        cases = question.draw(Sets.secret, Sets.version, index)
        inputs = question.inputs(Sets.secret, Sets.version, index)
        verdict = question.judge(cases, [observed(question, functions, inputs)])
        assert {case.kind for case in cases if len(case.inputs["weights"]) == 1} == {ALLOWED}
        assert verdict.points == question.points - 2
        assert verdict.misconception == "corner-case"


ASSIGNED = """
def mixup(x, labels, classes, share, order, training):
    if not training:
        return x.clone(), torch.eye(classes, dtype=x.dtype)[labels]
    targets = torch.zeros(len(labels), classes, dtype=x.dtype)
    rows = torch.arange(len(labels))
    targets[rows, labels] = share
    targets[rows, labels[order]] = 1 - share
    return share * x + (1 - share) * x[order], targets
"""
STORED = """
huber = huber_loss
residuals = torch.zeros(1)


def huber_loss(predictions, targets, delta):
    global residuals
    residuals = predictions - targets
    return huber(predictions, targets, delta)


def huber_gradient(predictions, targets, delta):
    return residuals.clamp(-delta, delta) / residuals.numel()
"""


@pytest.mark.parametrize(
    ("question", "answer", "addition", "lost"),
    [("03d-mixup", "right_slices", ASSIGNED, {"mixed targets"}), ("03c-regression", "right_where", STORED, None)],
)
def test_no_full_points_where_every_part_names_its_kinds(
    question: str, answer: str, addition: str, lost: set[str] | None
) -> None:
    """Targets that are assigned and not added, for a partner with the same label; residuals of an earlier call."""
    asked = QUESTIONS[question]
    assert all(part.on for part in asked.description.parts)
    wrong = f"import torch\n{answer_to(question, answer)}\n{addition}"
    functions = functions_of(asked, Answer("wrong", wrong, 0, None, ""))
    for index in range(3):
        cases = asked.draw(Sets.secret, Sets.version, index)
        verdict = asked.judge(cases, [observed(asked, functions, asked.inputs(Sets.secret, Sets.version, index))])
        without = {part.name for part in verdict.parts if part.points < part.maximum}
        assert without == lost if lost else without


@pytest.mark.parametrize(
    ("value", "there", "not_there"),
    [
        (np.array([[0.0, -1.0]]), {"axis 0 of length 1", "holds 0", "holds negative numbers"}, {"holds equal numbers"}),
        (np.array([2, 2]), {"1 axes of int64", "holds one number several times"}, {"holds nothing but 1"}),
        (np.array([np.nan, np.inf, 1.0]), {"holds nan", "holds an infinity"}, {"holds 0"}),
        (np.zeros((0, 3)), {"axis 0 of length 0"}, {"holds 0", "holds nothing but 0"}),
        (np.zeros((2, 3, 3)), {"axes 1 and 2 of equal length"}, {"axes 0 and 1 of equal length"}),
        (np.zeros((1, 1)), {"axis 1 of length 1"}, {"axes 0 and 1 of equal length"}),
        (0, {"0 axes of int64", "holds nothing but 0"}, {"holds one number several times"}),
        (True, {"True"}, {"holds positive numbers"}),
        ("mean", {"'mean'"}, set()),
        ([], {"no entry"}, {"one entry"}),
        ([1.5, 1.5], {"several entries", "holds equal numbers"}, set()),
    ],
)
def test_the_traits_of_a_value(value: object, there: set[str], not_there: set[str]) -> None:
    found = traits(Case("", {"x": value}))
    assert {f"x: {trait}" for trait in there} <= found
    assert not {f"x: {trait}" for trait in not_there} & found


def test_the_traits_of_what_lies_inside() -> None:
    found = traits(Case("", {"x": {"rows": [None, np.ones(1)]}}))
    assert {"x.rows: several entries", "x.rows[]: None", "x.rows[]: axis 0 of length 1"} <= found


def test_what_a_domain_names_is_a_trait_and_what_it_does_not_name_is_none() -> None:
    assert traits(Case("domain", {})) == set()
    assert traits(Case("one column, several rows", {})) == {"kind: one column, several rows"}


def test_so_many_cases_are_added_and_the_same_ones_again() -> None:
    def domain(rng: np.random.Generator) -> Case:
        return Case("domain", {name: bool(rng.integers(2)) for name in "abcdefgh"})

    common = common_traits(domain)
    assert len(common) == 16
    start = [Case("usual", dict.fromkeys("abcdefgh", True))]
    added = covering(start, domain, common, 16, np.random.default_rng(1))
    assert added[0] is start[0]
    assert len(added) == 1 + 16
    assert common.difference(*(traits(case) for case in added)) == set()
    again = covering(start, domain, common, 16, np.random.default_rng(1))
    assert [case.inputs for case in added] == [case.inputs for case in again]


def test_what_no_early_candidate_brings_is_still_looked_for() -> None:
    """Ten inputs, each true in one case of ten: a dozen candidates seldom bring them all."""

    def domain(rng: np.random.Generator) -> Case:
        true = rng.integers(10)
        return Case("domain", {name: bool(true == index) for index, name in enumerate("abcdefghij")})

    common = frozenset(f"{name}: {value}" for name in "abcdefghij" for value in (True, False))
    for seed in range(20):
        cases = covering([], domain, common, 1, np.random.default_rng(seed))
        assert common.difference(*(traits(case) for case in cases)) == set()
        assert len(cases) == 10


def test_a_trait_that_the_domain_does_not_have_is_given_up() -> None:
    cases = covering([], lambda _: Case("domain", {"x": True}), frozenset({"x: False"}), 2, np.random.default_rng(0))
    assert len(cases) == 2
