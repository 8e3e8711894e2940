"""Mutants: which edits are made, and that a question whose hidden cases are too few is found out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograders.questions import mutate as mutate_module
from autograders.questions import published_tables
from autograders.questions.bank import Answer, BankError
from autograders.questions.cases import Case
from autograders.questions.mutants import Mutant, mutants
from autograders.questions.mutate import Fate, mutate, update_table
from autograders.questions.question import QUESTIONS, answer_to
from autograders.questions.verify import cells

pytestmark = pytest.mark.slow

ANSWER = '''\
def mean_of_positive(values, scale):
    """A text that no edit may touch: mean 1."""
    total = 0.0
    for value in values[1:]:
        if value > 0 and value == value:
            total += value * scale
    return total / len(values)
'''


def edited(answer: str = ANSWER, **types: str) -> set[tuple[str, str]]:
    return {(mutant.old, mutant.new) for mutant in mutants(answer, types)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total = 0.0", "total = 1.0"),
        ("for value in values[1:]:", "for value in values[1 + 1:]:"),
        ("for value in values[1:]:", "for value in values:"),
        ("if value > 0 and value == value:", "if value >= 0 and value == value:"),
        ("if value > 0 and value == value:", "if (value > 0):"),
        ("total += value * scale", "total = value * scale"),
        ("total += value * scale", "total += value"),
        ("total += value * scale", "pass"),
        ("return total / len(values)", "return total // len(values)"),
        ("return total / len(values)", "return total / values"),
        ("return total / len(values)", "total / len(values)"),
    ],
)
def test_slips_that_students_make(old: str, new: str) -> None:
    assert (old, new) in edited()


def test_only_variables_of_equal_type_are_exchanged() -> None:
    pair = ("total += value * scale", "total += scale * scale")
    assert pair in edited(value="float", scale="float")
    assert pair not in edited(value="float", scale="list")


def test_no_mutant_compiles_to_the_same_code_and_none_edits_a_text() -> None:
    sources = [mutant.source for mutant in mutants(ANSWER, {"value": "float", "scale": "float"})]
    assert len(sources) == len(set(sources))
    assert all('"""A text that no edit may touch: mean 1."""' in source for source in sources)
    for source in sources:
        compile(source, "mutant", "exec")


def test_an_edit_is_also_made_everywhere_at_once() -> None:
    answer = "def f(a, b):\n    c = a + 1\n    return a + c\n"
    both = "def f(a, b):\n    c = b + 1\n    return b + c\n"
    assert both in {mutant.source for mutant in mutants(answer, {"a": "int", "b": "int"})}


def test_a_gap_in_the_hidden_cases_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With cases above the threshold alone, nobody would notice a gradient below it that is stretched."""
    question = QUESTIONS["03a-clip"]
    description = question.description

    def above(rng: np.random.Generator) -> list[Case]:
        return [case for case in description.draw(rng) if case.kind == "above the threshold"]

    direction = tuple(part for part in description.parts if part.name == "direction")
    # With mistakes, no such set would be drawn.
    narrow = replace(description, draw=above, parts=direction, mistakes=(), added=0)
    answer = Answer(
        "always", "def clip_by_global_norm(gradients, max_norm):\n"
        "    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()\n"
        "    scale = max_norm / norm if norm > max_norm else 1.0\n"
        "    return [scale * gradient for gradient in gradients], norm\n\n\n"
        "def per_parameter_cosine(gradients, max_norm):\n    return 1.0\n", 3.0, None, ""
    )  # fmt: skip
    public = replace(question.public, cases=question.public.cases[:1])
    narrowed = replace(question, description=narrow, public=public)
    monkeypatch.setattr("autograders.questions.mutate._right_on_visible", lambda *_: True)
    fates = Counter(fate for _, _, fate, _ in mutate(narrowed, [answer]))
    assert fates[Fate.GAP] > 0
    assert fates[Fate.HIDDEN] > 0


SPOILT = {
    "the answers behind it are wrong": "if hasattr(torch, 'spoilt'):\n    torch = None\n",
    "the answers behind it end the process": "assert not hasattr(torch, 'spoilt')\n",
}


@pytest.mark.parametrize("behind", SPOILT.values(), ids=SPOILT)
def test_a_mutant_that_spoils_its_process_changes_no_other_fate(behind: str) -> None:
    """Many share a process; what one leaves in a library's module is not seen by the reset between them."""
    question = QUESTIONS["03a-clip"]
    right = answer_to("03a-clip", "right_concatenate")
    answer = Answer("right", f"{behind}{right}", question.points, None, "")
    spoiling = Mutant(f"torch.spoilt = True\n{right.replace('return', 'return None,')}", "", "", "")
    trial = mutate_module._Trial(question, cells(question)[0], answer, 10)
    fates = [fate for fate, _ in trial.fates([spoiling, Mutant(answer.source, "", "", "")])]
    assert fates == [Fate.VISIBLE, Fate.SAME]


def test_the_table_keeps_the_rows_of_other_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = tmp_path / "answer-tables.md"
    guide.write_text("before\n<!-- mutate: begin -->\n| a |\n|---|\n<!-- mutate: end -->\nafter\n", "utf-8")
    monkeypatch.setattr(published_tables, "TABLES", guide)
    update_table({"03b-lr": {Fate.VISIBLE: 3, Fate.SAME: 1}})
    update_table({"03a-clip": {Fate.HIDDEN: 2}})
    update_table({"03b-lr": {Fate.VISIBLE: 4, Fate.SAME: 1}})
    lines = guide.read_text("utf-8").splitlines()
    assert lines[:2] == ["before", "<!-- mutate: begin -->"]
    assert lines[4:] == ["| 03a-clip | 2 | 0 | 2 | 0 | 0 | 0 |", "| 03b-lr | 5 | 4 | 0 | 0 | 0 | 1 |", *lines[6:]]
    assert lines[6:] == ["<!-- mutate: end -->", "after"]


def test_an_answer_that_is_not_right_itself_has_no_mutants() -> None:
    """Each of its mutants would lose points, which looks like a question without gaps."""
    question = QUESTIONS["03a-clip"]
    wrong = next(answer for answer in question.answers() if answer.points == 0)
    with pytest.raises(BankError, match=f"{wrong.name}: the answer itself does not get full points.*verify"):
        next(mutate(question, [wrong]))
