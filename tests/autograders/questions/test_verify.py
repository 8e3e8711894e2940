"""The bank of answers: every answer gets exactly what it declares, on many sets of hidden inputs."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import autograde

from autograders.probes import observe_cases
from autograders.questions import answer_process
from autograders.questions.answer_process import observe_sets
from autograders.questions.bank import BankError, read_answers
from autograders.questions.case_lines import departures
from autograders.questions.cases import Case
from autograders.questions.graded_parts import nested
from autograders.questions.published_tables import TABLES
from autograders.questions.question import QUESTIONS, UNANSWERED, encode_inputs
from autograders.questions.seeds import SecretError, create_secret, generator, pool_index, read_secret
from autograders.questions.verdict_cache import Result
from autograders.questions.verify import Outcome, Sets, verify, where_it_differs
from autograders.questions.verify import cells as cells_of
from lecture_lib.notebook.misconceptions import GENERAL

pytestmark = pytest.mark.slow

BANK = [(question, answer) for question in QUESTIONS.values() for answer in question.answers()]


def test_every_question_has_three_right_and_six_wrong_answers_with_distinct_misconceptions() -> None:
    for question in QUESTIONS.values():
        answers = question.answers()
        right = [answer for answer in answers if answer.points == question.points]
        wrong = [answer for answer in answers if answer.points < question.points]
        assert len(right) >= 3
        assert len(wrong) >= 6
        assert all(answer.misconception is None for answer in right)
        named = [answer.misconception for answer in wrong if answer.misconception is not None]
        assert len(set(named)) >= 6
        assert set(named) <= {*question.description.misconceptions(), *GENERAL}


def test_the_command_verifies_the_bank_and_the_empty_answer_in_processes_of_their_own() -> None:
    done = autograde("verify", "--sets", "1", "--question", "03a-clip", "--question", "03b-baseline")
    assert done.code == 0, done.out + done.err
    rows = [row for row in done.out.splitlines() if row.startswith("| 03")]
    expected = sum(len(QUESTIONS[name].answers()) + 1 for name in ("03a-clip", "03b-baseline"))
    assert len(rows) == expected
    assert all(row.endswith("| yes |") for row in rows)
    assert sum(f"(empty) | 0 | {UNANSWERED}" in row for row in rows) == 2


def test_an_answer_that_declares_something_else_is_reported() -> None:
    question = QUESTIONS["03b-baseline"]
    answer = question.answers()[0]
    full = Result(4.0, None, None)
    outcome = Outcome(question.id, answer, (full, full), Sets(indices=(3, 4)))
    assert outcome.holds
    assert str(outcome) == f"03b-baseline, {answer.name}: declares 4 points; got that on every set"
    fewer = replace(outcome, results=(full, Result(3.0, "percent", None)))
    assert not fewer.holds
    assert str(fewer) == f"03b-baseline, {answer.name}: declares 4 points; got 3 points and percent on set 4"
    assert not replace(outcome, results=(Result(8.0, "percent", None), full)).holds
    assert not replace(outcome, answer=replace(answer, points=7.0)).holds


def test_an_answer_that_gets_something_else_is_shown_with_its_part_and_case() -> None:
    question = QUESTIONS["03a-clip"]
    wrong = next(answer for answer in question.answers() if answer.misconception)
    declared = replace(wrong, points=question.points, misconception=None)
    got = Result(wrong.points, wrong.misconception, None)
    lines = list(where_it_differs(Outcome(question.id, declared, (got,), Sets(indices=[2]))))
    lost = [line for line in lines if ": 0 of " in line]
    assert lines[0] == "set 2:"
    assert lost
    assert any(line.strip().startswith("✗") and "expected" in line for line in lines)
    assert any(line.startswith("  case ") for line in lines)


@pytest.mark.parametrize("declared", ["norm-after", "typo", "raised"])
def test_a_mistake_that_is_not_named_says_where_the_answer_does_something_else(declared: str) -> None:
    question = QUESTIONS["03a-clip"]
    wrong = next(answer for answer in question.answers() if answer.misconception == "always-rescaled")
    other = replace(wrong, misconception=declared)
    lines = list(where_it_differs(Outcome(question.id, other, (Result(0, None, None),), Sets(indices=[2]))))
    assert f"  named: always-rescaled, not {other.misconception}" in lines
    if declared == "typo":
        assert any(line.startswith("  the description has no mistake typo; it has ") for line in lines)
    elif declared == "raised":  # a general one, which no description has
        assert not any("has no mistake" in line for line in lines)
    else:
        departure = next(line for line in lines if line.startswith("  norm-after would give clipping.norm = "))
        assert re.search(r" = .+ in case \d+, .+; observed ", departure), departure


def test_a_mistake_is_not_blamed_for_fields_that_it_does_not_change() -> None:
    """As in the judge: a second mistake elsewhere does not keep the first one from being named."""
    question = QUESTIONS["03a-clip"]
    (mistake,) = (mistake for mistake in question.description.mistakes if mistake.id == "norm-after")
    cases = question.draw(Sets.secret, Sets.version, 0)
    given = [nested({**question.description.reference(case), **mistake.simulate(case)}) for case in cases]
    observations = [{part: {"value": dict(values)} for part, values in fields.items()} for fields in given]
    for observation in observations:
        if "cosine" in observation:
            observation["cosine"]["value"]["cosine"] = -1.0
    assert not list(departures(question, mistake.simulate, cases, observations))
    observations[0]["clipping"]["value"]["norm"] = 12345.0
    (departure,) = departures(question, mistake.simulate, cases, observations)
    assert departure.startswith("clipping.norm = ")
    assert "in case 1, " in departure


def test_none_where_a_mistake_gives_none_is_no_departure() -> None:
    question = QUESTIONS["03a-recipe"]
    (mistake,) = (mistake for mistake in question.description.mistakes if mistake.id == "seed-missing")
    cases = question.draw(Sets.secret, Sets.version, 0)
    given = [nested({**question.description.reference(case), **mistake.simulate(case)}) for case in cases]
    observations = [{part: {"value": values} for part, values in fields.items()} for fields in given]
    assert any(fields["record"]["seed"] is None for fields in given)
    assert not list(departures(question, mistake.simulate, cases, observations))


def test_the_published_table_is_what_verify_finds() -> None:
    page = TABLES.read_text("utf-8")
    for question in QUESTIONS.values():
        for declared in zip(*(asked.answers() for asked in question.of_each_course()), strict=True):
            points = " / ".join(f"{each:g}" for each in sorted({answer.points for answer in declared}))
            named = " / ".join(sorted({answer.misconception or "–" for answer in declared}))
            assert f"| {question.id} | {declared[0].name} | {points} | {named} | yes |" in page
    table = page.split("<!-- verify: begin -->")[1].split("<!-- verify: end -->")[0]
    assert table.count("| yes |") == len(BANK) + len(QUESTIONS)


@pytest.mark.parametrize(
    ("source", "incident"),
    [
        ("while True: pass", "out of time: it computed for more than 1 seconds"),
        ("import os; os._exit(3)", "its process ended (exit code 3)"),
        ("1/0", "its process ended (exit code 1)"),
        ("x =", "its process ended (exit code 1)"),
    ],
)
def test_an_answer_that_does_not_come_back_says_why_and_costs_its_own_set(source: str, incident: str) -> None:
    question = QUESTIONS["03b-baseline"]
    cases = question.draw(b"test", "v", 0)
    setup, right = cells_of(question)[0], question.answers()[0].source
    # The first set ends the process or exceeds its limit; the second one, in a new process, is observed.
    first = f"import pathlib\nmark = pathlib.Path({{}})\nif not mark.exists():\n    mark.touch()\n    {source}"
    with tempfile.TemporaryDirectory() as folder:
        bad = first.format(repr(str(Path(folder) / "mark"))) if source != "x =" else source
        inputs = encode_inputs(cases)
        lost, *rest = observe_sets(question, [*setup, bad, right], [inputs, inputs], seconds=1)
    assert lost.incident is not None
    assert lost.incident.text.endswith(incident)
    assert lost.published == []
    points = [question.judge(cases, seen.published).points for seen in rest]
    assert points == [0.0 if source == "x =" else question.points]


def test_an_answer_that_waits_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_process, "IDLE_SECONDS", 1)
    question = QUESTIONS["03b-baseline"]
    (seen,) = observe_sets(question, ["import threading; threading.Event().wait()"], [[]])
    assert seen.incident is not None
    assert seen.incident.text.startswith("out of time: it computed nothing for 1 seconds")


RIGHT = "## right\n\n- points: 3\n\n```python\nx = 1\ny = 1\n```\n\n"
EDIT = "## wrong_x\n\n- points: 1\n- misconception: none\n- edit of: right\n\n"
REFUSED = {
    "a line '- misconception: ID'": "## wrong_x\n\n- points: 1\n\n```python\nx = 1\n```\n",
    "a line '- points: N'": "## wrong_x\n\n- misconception: none\n\n```python\nx = 1\n```\n",
    "two answers of this name": RIGHT * 2,
    "a block of code": EDIT,
    "one that edits another says '- edit of: NAME'": RIGHT.replace("python", "diff"),
    "is not before": EDIT + "```diff\n-x = 1\n```\n" + RIGHT,
    "blocks are diffs": RIGHT + EDIT + "```python\nx = 2\n```\n",
    "begins with a space": RIGHT + EDIT + "```diff\nx = 2\n```\n",
    "matches 0 times": RIGHT + EDIT + "```diff\n-x = 3\n+x = 2\n```\n",
    "matches 2 times": RIGHT.replace("y =", "x =") + EDIT + "```diff\n-x = 1\n```\n",
}


@pytest.mark.parametrize("told", REFUSED)
def test_an_answer_that_is_not_in_the_form_is_refused(told: str, tmp_path: Path) -> None:
    (tmp_path / "03a-x.md").write_text("# Answers to 03a-x\n\n" + REFUSED[told], "utf-8")
    with pytest.raises(BankError, match=r"03a-x\.md, answer (wrong_x|right): ") as refused:
        read_answers(tmp_path / "03a-x.md")
    assert told in str(refused.value)


def test_an_answer_edits_another_one(tmp_path: Path) -> None:
    edit = "```diff\n x = 1\n-y = 1\n+\n+y = 2\n```\n"
    (tmp_path / "03a-x.md").write_text(RIGHT + EDIT + edit, "utf-8")
    right, wrong = read_answers(tmp_path / "03a-x.md")
    assert (right.source, right.points, right.misconception) == ("x = 1\ny = 1", 3, None)
    assert (wrong.name, wrong.source, wrong.points, wrong.misconception) == ("wrong_x", "x = 1\n\ny = 2", 1, None)


def right_observation(question, index: int) -> list[object]:
    """What a right answer publishes for the cases of one set of the pool."""
    namespace: dict[str, object] = {}
    for source in [*cells_of(question)[0], question.of_course(b"test").answers()[0].source]:
        exec(source, namespace)
    functions = tuple(namespace[name] for name in question.public.functions)
    cases = question.draw(b"test", "v", index)
    return [{"question": question.id, "cases": observe_cases(question.id, functions, encode_inputs(cases))}]


DECISIONS = {
    *("03a-precision", "03a-lrfinder"),
    *(f"03b-{one}" for one in ("curves", "inspect", "lr", "overfit", "shift", "subset")),
}
"""Some parts' answers are one of a few words or numbers, so that some fit other inputs by luck."""

SAME_ON_EVERY_SET = {"03b-debug": 3.0, "03c-choose": 1.0}
"""Points for what does not depend on the inputs.

03b-debug: the rungs of the faults, which are those of the course's script. 03c-choose: AdamW fits every task.
"""


class TestJudging:
    """Grading fails closed, and judges draw their inputs themselves."""

    question = QUESTIONS["03a-clip"]
    cases = question.draw(b"test", "v", 0)

    @pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
    def test_right_observations_of_other_inputs_earn_nothing(self, question, repetitions) -> None:
        """What an answer would publish that knows everything but the inputs; in `make test-full` on more sets."""
        by_luck = []
        few = question.id not in DECISIONS  # which can be told from luck by many pairs alone
        others = [
            question.draw(secret, "v", 0)
            for secret in (b"test", b"another", b"a third", b"a fourth")[: 2 if few else 4]
        ]
        for seed in range(1, repetitions(3 if few else 5, 20)):
            published = right_observation(question, seed)
            assert question.judge(question.draw(b"test", "v", seed), published).points == question.points
            by_luck += [question.judge(other, published).points for other in others]
        if question.id in DECISIONS:
            assert max(by_luck) <= question.points / 2
            assert sum(by_luck) <= len(by_luck) * question.points / 20
        else:
            assert max(by_luck) <= SAME_ON_EVERY_SET.get(question.id, 0.0)

    @pytest.mark.parametrize(
        "published",
        [
            [],
            [{}],
            [None],
            ["passed"],
            [{"question": "03a-clip", "cases": []}],
            [{"question": "03a-clip", "cases": "all"}],
            [{"question": "03a-clip", "cases": [None] * 5}],
            [{"question": "03a-clip", "cases": [{"clipping": 8}] * 5}],
            [{"question": "03a-clip", "cases": [{"clipping": {"dict": {"value": "yes"}}}] * 5}],
            [{"question": "03a-clip", "cases": [{"clipping": {"array": "!", "dtype": "float64", "shape": [1]}}] * 5}],
            [{"question": "03b-inspect", "cases": [{}] * 5}],
            [{"question": "03a-clip", "cases": [{}] * 5}] * 2,
        ],
    )
    def test_anything_but_one_whole_observation_is_zero(self, published: list[object]) -> None:
        verdict = self.question.judge(self.cases, published)
        assert verdict.points == 0
        assert verdict.maximum == 8
        assert verdict.incident is not None or all(part.message for part in verdict.parts)

    def test_nan_is_never_right(self) -> None:
        from autograders.probes.codec import encode

        nothing = {
            "clipping": {
                "value": {
                    "clipped": [np.full_like(g, np.nan) for g in self.cases[0].inputs["gradients"]],
                    "norm": float("nan"),
                }
            },
            "cosine": {"value": {"cosine": float("nan")}},
        }
        published = [{part: encode(seen) for part, seen in nothing.items()}] * 5
        assert self.question.judge(self.cases, [{"question": "03a-clip", "cases": published}]).points == 0

    def test_too_many_negative_or_nan_points_are_the_judges_error(self) -> None:
        from autograders.questions.verdict import Part, Verdict

        for points in (4.0000001, -1.0, float("nan")):
            with pytest.raises(ValueError, match="points"):
                Verdict("q", (Part("p", points, 4.0, ""),))


def test_draws_depend_on_secret_version_question_and_index_and_on_nothing_else() -> None:
    def first(*key) -> float:
        return float(generator(*key).normal())

    base = (b"secret", "version", "question", 0)
    assert first(*base) == first(*base)
    others = [
        (b"other", *base[1:]),
        (b"secret", "other", "question", 0),
        (b"secret", "version", "other", 0),
        (*base[:3], 1),
    ]
    assert len({first(*base), *(first(*other) for other in others)}) == 5
    assert {pool_index(b"secret", str(n)) for n in range(200)} == set(range(8))


def test_the_secret_is_made_once_and_a_damaged_one_is_refused(tmp_path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(SecretError, match="autograde release"):
        read_secret(path)
    assert create_secret(path) == create_secret(path)
    assert len(create_secret(path)) == 32
    for damaged in ("", "ab", "not hex"):
        path.write_text(damaged)
        with pytest.raises(SecretError, match="Put the course's secret back"):
            read_secret(path)


def test_the_accumulation_reference_agrees_with_pytorch_on_the_big_batch() -> None:
    import torch

    def on_big_batches(model, micro_batches, optimizer, loss_fn, accumulate):
        for start in range(0, len(micro_batches), accumulate):
            x, y = (torch.cat(rows) for rows in zip(*micro_batches[start : start + accumulate], strict=True))
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()

    question = QUESTIONS["03a-accumulate"]
    for case in question.draw(b"test", "1", 0):
        right = question.description.reference(case)
        for part, run in question.public.parts.items():
            weight = run({"accumulate_epoch": on_big_batches}, case.inputs)["weight"].detach()
            np.testing.assert_allclose(right[f"{part}.weight"], weight, rtol=0, atol=1e-5)


def test_the_clipping_judge_agrees_with_pytorch() -> None:
    import torch

    from autograders.questions.descriptions.clip import QUESTION

    for case in QUESTIONS["03a-clip"].draw(b"test", "v", 0):
        parameters = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in case.inputs["gradients"]]
        for parameter, gradient in zip(parameters, case.inputs["gradients"], strict=True):
            parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        norm = torch.nn.utils.clip_grad_norm_(parameters, case.inputs["max_norm"])
        right = QUESTION.reference(case)
        assert right["clipping.norm"] == pytest.approx(norm.item(), rel=1e-12)
        for parameter, expected in zip(parameters, right["clipping.clipped"], strict=True):
            np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=1e-5)


def test_the_baseline_judge_agrees_with_scikit_learn() -> None:
    from sklearn.dummy import DummyClassifier
    from sklearn.metrics import log_loss

    from autograders.questions.descriptions.baseline import QUESTION

    for case in QUESTIONS["03b-baseline"].draw(b"test", "v", 0):
        right = QUESTION.reference(case)
        train, val = case.inputs["y_train"], case.inputs["y_val"]
        prior = DummyClassifier(strategy="prior").fit(np.zeros((len(train), 1)), train)
        assert right["majority_accuracy.majority_accuracy"] == pytest.approx(prior.score(np.zeros((len(val), 1)), val))
        if len(prior.classes_) > 1:  # log_loss wants two classes
            probabilities = prior.predict_proba(np.zeros((len(val), 1)))
            expected = log_loss(val, probabilities, labels=prior.classes_)
            assert right["constant_loss.constant_loss"] == pytest.approx(expected)


def test_the_problems_of_the_hidden_data_sets_are_those_that_numpy_finds() -> None:
    """An oracle of its own, on every data set of many draws; a kind that is named after a problem has it."""
    from autograders.questions.descriptions.inspect import KINDS, QUESTION

    def problems(case: Case) -> set[str]:
        x = [case.inputs["x_train"], case.inputs["x_val"]]
        y = [case.inputs["y_train"], case.inputs["y_val"]]
        found = set()
        if max(np.abs(part).max() for part in x) > 10:
            found.add("range")
        if any(part.dtype.kind != "f" for part in x) or any(part.dtype != np.int64 for part in y):
            found.add("dtype")
        if min(part.min() for part in y) < 0 or max(part.max() for part in y) >= case.inputs["classes"]:
            found.add("labels")
        if (x[0][:, None].astype(np.float64) == x[1][None].astype(np.float64)).all(axis=2).any():
            found.add("duplicates")
        if np.setxor1d(*map(np.unique, y)).size:
            found.add("class-stacked")
        return found

    for seed in range(20):
        for case in QUESTIONS["03b-inspect"].draw(b"test", str(seed), 0):
            found = problems(case)
            right = {path.removeprefix("problems."): word for path, word in QUESTION.reference(case).items()}
            assert {name for name, word in right.items() if word == "reported"} == found, case.kind
            of_its_kind = {problem for problem, kinds in KINDS.items() if case.kind in kinds}
            if case.kind != "several problems":
                assert found >= of_its_kind - {""}, case.kind
            assert of_its_kind != {""} or not found, case.kind


def test_the_kinds_never_travel() -> None:
    """What kind a data set is of is not in what is laid out for the student's process."""
    import json

    cases = QUESTIONS["03b-inspect"].draw(b"test", "v", 0)
    encoded = encode_inputs(cases)
    assert all(set(case["dict"]) == {"x_train", "y_train", "x_val", "y_val", "classes"} for case in encoded)
    text = json.dumps(encoded)
    assert not [case.kind for case in cases if f'"{case.kind}"' in text]
    assert len({tuple(case.kind for case in QUESTIONS["03b-inspect"].draw(b"t", str(s), 0)) for s in range(5)}) == 5


def test_verify_yields_an_outcome_for_the_empty_answer_of_each_question() -> None:
    outcomes = list(verify([QUESTIONS["03a-accumulate"]], Sets(indices=(0,))))
    assert outcomes[-1].answer.name == "(empty)"
    assert [result.misconception for result in outcomes[-1].results] == [UNANSWERED]
    assert all(outcome.holds for outcome in outcomes)
