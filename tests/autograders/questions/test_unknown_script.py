"""03b-debug: which script a course gets, what each fault costs, what the ladder finds, what nobody is told."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from autograders import notebooks
from autograders.nbgrader.put_variants import PutVariants
from autograders.probes import observe_question
from autograders.questions.bank import BankError, read_answers
from autograders.questions.descriptions.debug_scripts import FAULTS, PROGRAM, SCRIPTS, with_diagnosis
from autograders.questions.question import QUESTIONS
from autograders.questions.seeds import POOL, create_secret
from autograders.questions.verdict import UNANSWERED, Verdict
from lecture_lib.debugging import Spec, climb
from lecture_lib.notebook.check import check_result
from lecture_lib.notebook.questions.debug import SCRIPT, script_program

QUESTION = QUESTIONS["03b-debug"]
SECRETS = [hashlib.sha256(bytes([number])).digest() for number in range(60)]
each_script = pytest.mark.parametrize("asked", QUESTION.of_each_course(), ids=lambda asked: asked.variant.name)
# The part of a program in which the ladder reports each fault.
LADDER_PARTS = {
    "rows-in-both": "split",
    "validation-unscaled": "inputs",
    "linear-network": "layers",
    "softmax-layer": "loss",
    "last-layer-only": "optimizer",
    "softmax-in-loss": "loss",
    "loss-summed": "loss",
    "never-cleared": "step",
    "cleared-too-early": "step",
    "graph-cut": "model",
    "schedule-per-batch": "schedule",
    "mode-not-set": "step",
    "measured-with-dropout": "metric",
}


def functions_of(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"torch": torch, "nn": torch.nn}
    exec(source, namespace)
    return {name: namespace[name] for name in QUESTION.public.functions if name in namespace}


def judged(asked: Any, source: str, index: int = 0) -> Verdict:
    cases = asked.draw(b"test", "v", index)
    inputs = json.loads(asked.inputs(b"test", "v", index))
    published = observe_question(asked.id, tuple(functions_of(source).values()), inputs)
    return QUESTION.judge(cases, [json.loads(json.dumps(published))])


def lost(verdict: Verdict) -> set[str]:
    return {part.name for part in verdict.parts if part.points < part.maximum}


def with_faults(names: tuple[str, ...], body: str) -> str:
    program = PROGRAM
    for name in names:
        program = FAULTS[name].put_into(program)
    return with_diagnosis(program, body)


def test_every_script_is_some_courses_and_the_same_on_all_its_sets() -> None:
    drawn = {secret: {QUESTION.draw(secret, "v", index)[0].variant for index in range(POOL)} for secret in SECRETS[:3]}
    assert all(len(names) == 1 for names in drawn.values())
    for secret in SECRETS[:3]:
        assert {QUESTION.draw(secret, "another version", 0)[0].variant} == drawn[secret]
    assert {QUESTION.of_course(secret).variant.name for secret in SECRETS} == set(SCRIPTS)


def test_the_choice_is_an_hmac_of_the_secret() -> None:
    for secret in SECRETS[:10]:
        mac = hmac.new(secret, b"variant\x1f03b-debug", hashlib.sha256).digest()
        assert list(SCRIPTS)[int.from_bytes(mac[:8], "big") % 7] == QUESTION.of_course(secret).variant.name


def test_scripts_have_three_faults_in_three_functions_and_all_parts_the_same_points() -> None:
    assert len(SCRIPTS) >= 6
    assert len(set(SCRIPTS.values())) == len(SCRIPTS)
    for names in SCRIPTS.values():
        assert len({FAULTS[name].function for name in names}) == 3
    assert {tuple(asked.description.points.items()) for asked in QUESTION.of_each_course()} == {
        tuple(QUESTION.description.points.items())
    }
    assert QUESTION.points == 12


@each_script
def test_each_fault_that_is_left_costs_its_part_and_is_named(asked: Any) -> None:
    body = asked.variant.words["diagnosis"]
    for place, name in zip(("first", "second", "third"), SCRIPTS[asked.variant.name], strict=True):
        verdict = judged(asked, with_faults((name,), body))
        assert lost(verdict) == {f"{place} fault"}
        assert verdict.misconception == name
        assert verdict.meaning
        assert verdict.points == 10


@each_script
def test_a_fault_in_a_function_that_had_none_costs_the_rest(asked: Any) -> None:
    functions = {FAULTS[name].function for name in SCRIPTS[asked.variant.name]}
    others = [name for name, fault in FAULTS.items() if fault.function not in functions]
    assert others
    for name in others:
        verdict = judged(asked, with_faults((name,), asked.variant.words["diagnosis"]))
        assert lost(verdict) == {"the rest"}
        assert verdict.misconception == name


@each_script
def test_an_untouched_script_gets_nothing_and_a_diagnosis_alone_its_own_points(asked: Any) -> None:
    untouched = judged(asked, asked.variant.stub)
    assert (untouched.points, untouched.misconception) == (0, UNANSWERED)
    assert judged(asked, with_faults(SCRIPTS[asked.variant.name], "return {}")).points == 0
    named = judged(asked, with_faults(SCRIPTS[asked.variant.name], asked.variant.words["diagnosis"]))
    assert named.points == 3
    assert lost(named) == {"first fault", "second fault", "third fault", "the rest"}


@each_script
def test_another_courses_answer_is_judged_for_this_course(asked: Any) -> None:
    """The right program is the same for all; what is named is not."""
    for other in QUESTION.of_each_course():
        named = {FAULTS[name].function: FAULTS[name].rungs[0] for name in SCRIPTS[other.variant.name]}
        faults = [FAULTS[name] for name in SCRIPTS[asked.variant.name]]
        right = sum(named.get(fault.function) in fault.rungs for fault in faults)
        assert judged(asked, other.variant.solution).points == 9 + right


@each_script
def test_each_rung_that_can_be_argued_counts(asked: Any) -> None:
    """Whichever of them the ladder reports."""
    faults = [FAULTS[name] for name in SCRIPTS[asked.variant.name]]
    for rungs in itertools.product(*(fault.rungs for fault in faults)):
        named = {fault.function: rung for fault, rung in zip(faults, rungs, strict=True)}
        assert judged(asked, with_diagnosis(PROGRAM, f"return {named}")).points == 12


def test_a_schedule_belongs_to_the_rate_and_to_the_full_run() -> None:
    assert FAULTS["schedule-per-batch"].rungs == (5, 6)


def test_the_check_of_a_right_script_does_not_call_the_answer_right() -> None:
    """It sees the log and the form of the diagnosis: a wrong diagnosis has the same tick."""
    for body in ('return {"measure": 6}', 'return {"update": 1}'):
        shown = repr(check_result("03b-debug", *functions_of(with_diagnosis(PROGRAM, body)).values()))
        head = "✓ 03b-debug · an unknown script: the log looks right, and the diagnosis has the right form\n"
        assert shown.startswith(head)
        assert "exact" not in shown
        assert "only hidden tests say whether it is right" in shown


@pytest.mark.slow
@each_script
def test_the_ladder_finds_the_faults_one_after_another(asked: Any, repetitions: Callable[[int, int], int]) -> None:
    """The first one here, all three in `make test-full`: each climb is of the script with the others repaired."""
    names = SCRIPTS[asked.variant.name]
    task = Spec(task="classification", classes=10, epochs=10, scheduler_steps="epoch")
    for repaired in range(repetitions(1, 3)):
        left = names[repaired:]
        found = climb(script_program(functions_of(with_faults(left, "return {}"))), task, budget=3).findings[0]
        assert (found.part, found.kind) == (LADDER_PARTS[left[0]], "violation")
        assert found.rung in FAULTS[left[0]].rungs
        assert found.evidence


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_visible_check_shows_every_fault_in_the_log_and_names_none(name: str) -> None:
    functions = functions_of(with_faults((name,), 'return {"measure": 6}'))
    shown = repr(check_result("03b-debug", *functions.values()))
    assert shown.startswith("✗")
    assert not set(re.findall(r"\w+", shown)) & {*SCRIPT, "rung"}
    known = QUESTION.words(name)
    assert known is not None
    assert known.what not in shown
    assert name not in json.dumps(shown)


def test_words_that_give_a_fault_away_do_not_ship() -> None:
    shipped = Path(notebooks.ROOT / "lecture_lib/notebook/questions/03b-debug.json").read_text("utf-8")
    assert set(json.loads(shipped)["misconceptions"]) == {"misnamed", "too-many-named"}
    for name in FAULTS:
        assert name not in shipped
        words = QUESTION.words(name)
        assert words is not None
        assert words.what not in shipped


def test_the_notebook_in_the_repository_holds_the_first_script_repaired() -> None:
    nb = notebooks.from_text(notebooks.NOTEBOOKS / "03b-debug-ladder.py")
    (cell,) = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "03b-debug"]
    assert QUESTION.variant is not None
    assert notebooks.without_markers(cell.source).strip() == QUESTION.variant.solution.strip()


def test_a_released_cell_holds_the_script_of_its_course(tmp_path: Path) -> None:
    meta = {"nbgrader": {"grade_id": "03b-debug", "solution": True}}
    for number, secret in enumerate(SECRETS[:8]):
        course = tmp_path / str(number)
        course.mkdir()
        create_secret(course / "secret", secret)
        cells = [nbformat.v4.new_code_cell("...", metadata=meta), nbformat.v4.new_code_cell("kept")]
        nb, _ = PutVariants(course_root=str(course)).preprocess(nbformat.v4.new_notebook(cells=cells), {})
        assert nb.cells[0].source == QUESTION.of_course(secret).variant.stub
        assert nb.cells[1].source == "kept"


def test_an_answer_that_asks_for_words_which_no_variant_has_is_refused(tmp_path: Path) -> None:
    bank = tmp_path / "03b-x.md"
    bank.write_text("## right\n\n- points: {{worth}}\n\n```python\nx = '{{name}}'\n```\n", "utf-8")
    (answer,) = read_answers(bank, {"worth": "3", "name": "y"})
    assert (answer.points, answer.source) == (3.0, "x = 'y'")
    with pytest.raises(BankError, match="name"):
        read_answers(bank, {"worth": "3"})


def test_a_fault_whose_lines_are_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        FAULTS["never-cleared"].put_into("x = 1")
