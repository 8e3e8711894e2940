"""Descriptions: what is derived from them is fresh, and the bank's answers keep to the declared domains."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from autograders.questions import visible
from autograders.questions.bank import Answer
from autograders.questions.cases import Case, draw_until
from autograders.questions.domain import EXAMPLES, first_difference, sample
from autograders.questions.graded_parts import DescriptionError, Graded, Mistake, given, nested
from autograders.questions.question import QUESTIONS, Question
from autograders.questions.seeds import POOL, generator
from autograders.questions.verdict_cache import Result, VerdictCache, result_key
from autograders.questions.verify import cells
from autograders.questions.visible import stale, write_visible_cases

pytestmark = pytest.mark.slow


def test_the_visible_cases_are_as_their_descriptions_say() -> None:
    assert not [path.name for path, _ in stale()], "run `autograde build --questions`"


def test_a_file_is_stale_for_another_number_but_not_for_another_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible, "visible_cases_path", lambda name: tmp_path / f"{name}.json")
    questions = [QUESTIONS["03b-lr"], QUESTIONS["03a-clip"]]
    path = tmp_path / "03b-lr.json"
    assert write_visible_cases(questions) == [path, tmp_path / "03a-clip.json"]
    assert write_visible_cases(questions) == []
    number = re.search(r"\b[1-9]\.\d{15,}(?![\de])", text := path.read_text("utf-8"))
    assert number is not None
    path.write_text(text.replace(number[0], number[0][:-1]), "utf-8")
    assert write_visible_cases(questions) == []
    path.write_text(text.replace(number[0], number[0][:6]), "utf-8")
    assert write_visible_cases(questions) == [path]


def test_nothing_is_trained_when_questions_are_imported() -> None:
    """Every command and every process that grades imports them; PyTorch imports its compiler at the first step."""
    script = "import sys, autograders.questions.question; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


TRAINING = ("03a-recipe", "03a-checkpoint", "03b-overfit", "03b-shift", "03a-lrfinder")
"""Questions whose cases are whole runs: `make test` takes the first three answers, which are right, on four cases."""


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_right_answers_agree_on_the_domain_and_wrong_ones_do_not(
    question: Question, kept_verdicts: VerdictCache, fresh_secret: bytes, repetitions: Callable[[int, int], int]
) -> None:
    """Six answers drawn by this run; in `make test-full` all of them."""
    trains = question.id in TRAINING
    count = repetitions(4, EXAMPLES) if trains else EXAMPLES
    answers = question.answers()
    most = min(repetitions(3 if trains else 6, len(answers)), len(answers))
    for answer in answers[:most] if trains else random.Random(fresh_secret).sample(answers, most):
        differs = difference_on_the_domain(question, answer, count, kept_verdicts)
        if answer.misconception is None and answer.points == question.points:
            assert differs is None, f"{answer.name}: {differs}"
        else:
            assert differs is not None, f"{answer.name} agrees on {count} cases of the domain"


def difference_on_the_domain(question: Question, answer: Answer, count: int, cache: VerdictCache) -> str | None:
    """The first case of the domain on which an answer is wrong; kept, because these cases never change."""
    sources = [*cells(question)[0], answer.source]
    key = result_key(question.file, question.id, sources, b"domain", f"the first of {count} cases", 0)
    known = cache.read([key])
    if key not in known:
        differs = first_difference(question, sources, sample(question.description, count))
        known[key] = Result(0.0, None, differs and str(dict(differs.inputs))[:1000])
        cache.write(known)
    return known[key].incident


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_draw_is_far_from_running_out_of_tries(
    question: Question, fresh_secret: bytes, repetitions: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release must not stop at a set that cannot be drawn: with a quarter of the tries all of them still can.

    Two sets of this run; in `make test-full` as many as a course has.
    """

    def impatient(draw: Callable[[], Any], clear: Callable[[Any], bool], most: int = 200) -> Any:
        return draw_until(draw, clear, most // 4)

    for name, module in sys.modules.items():
        if name.startswith("autograders.questions.descriptions.") and hasattr(module, "draw_until"):
            monkeypatch.setattr(module, "draw_until", impatient)
    for index in range(repetitions(2, POOL)):
        assert question.description.draw_set(generator(fresh_secret, "tries", question.id, index)), fresh_secret.hex()


def test_a_set_is_drawn_again_until_every_mistake_shows_on_it() -> None:
    """Rows that agreed by chance hid one mistake of 03b-inspect on one set in a thousand."""
    clip = QUESTIONS["03a-clip"].description
    drawn = clip.draw(np.random.default_rng(0))
    shown = [replace(case, kind="shown") for case in drawn]
    rare = Mistake("rare", "", "", lambda case: {"clipping.norm": -1.0} if case.kind == "shown" else {})
    norm = Graded("norm", 1, ("clipping.norm",))
    described = replace(
        clip,
        parts=(norm,),
        mistakes=(rare,),
        draw=lambda rng: shown if rng.random() < 0.5 else drawn,
        added=0,
    )
    assert all(described.draw_set(np.random.default_rng(seed)) is shown for seed in range(20))
    never = replace(described, draw=lambda rng: drawn)
    with pytest.raises(DescriptionError, match="03a-clip: the mistake rare gives the right values on all hidden"):
        never.draw_set(np.random.default_rng(0))


def test_a_mistake_costs_the_same_points_on_every_set() -> None:
    """In 03a-lrfinder a sweep that ended where the batches end cost one point less on one set in two hundred."""
    clip = QUESTIONS["03a-clip"].description
    drawn = clip.draw(np.random.default_rng(0))
    few, many = ([replace(case, kind=kind) for case in drawn] for kind in ("few", "many"))

    def both_on_many(case: Case) -> dict[str, float]:
        return {"clipping.norm": -1.0} | ({"cosine.cosine": 2.0} if case.kind == "many" else {})

    described = replace(
        clip,
        parts=(Graded("norm", 1, ("clipping.norm",)), Graded("cosine", 1, ("cosine.cosine",))),
        mistakes=(Mistake("varies", "", "", both_on_many),),
        draw=lambda rng: many if rng.random() < 0.5 else few,
        added=0,
    )
    sets = [described.draw_set(np.random.default_rng(seed)) for seed in range(20)]
    assert all(chosen is sets[0] for chosen in sets)

    first = iter([many])  # the set that says what is usual
    fading = replace(described, draw=lambda rng: next(first, few))
    with pytest.raises(DescriptionError, match="varies costs cosine and norm on one set and norm on another"):
        fading.draw_set(np.random.default_rng(0))


@pytest.mark.filterwarnings("error")
def test_a_mistake_may_divide_by_zero() -> None:
    """As 03a-dataset's does, which stretches an image to its range, on an image of one grey."""
    mistake = Mistake("m", "what", "where", lambda case: {"part.share": np.float64(0) / np.ptp(case.inputs["pixels"])})
    share = mistake.forms()["m"](Case("one grey", {"pixels": np.ones(3)}))["part.share"]
    assert np.isnan(share)


def test_a_mistake_is_named_in_each_of_its_forms() -> None:
    clip = QUESTIONS["03a-clip"].description
    cases = clip.draw(np.random.default_rng(0))
    by_id = {mistake.id: mistake for mistake in clip.mistakes}
    half = given({"clipping.norm": lambda gradients, max_norm: max_norm / 2})
    both = replace(clip, mistakes=(replace(by_id["norm-after"], also=(half,)),))
    for form in (by_id["norm-after"].simulate, half):
        seen = [observed(clip.reference(case) | form(case)) for case in cases]
        assert both.judge(cases, seen).misconception == "norm-after"
    neither = [observed(clip.reference(case) | {"clipping.norm": 7.0}) for case in cases]
    assert both.judge(cases, neither).misconception is None
    assert "norm-after/2" in both.public_cases()[0].mistakes


def observed(fields: Mapping[str, object]) -> dict[str, dict[str, object]]:
    return {part: {"value": values} for part, values in nested(fields).items()}


class TestContradictions:
    """A description that contradicts itself is refused with the remedy."""

    clip = QUESTIONS["03a-clip"].description

    def refused(self, **changes: object) -> str:
        changed = replace(self.clip, **changes)  # type: ignore[arg-type]
        with pytest.raises(DescriptionError) as error:
            _ = changed.check() or changed.public_cases()
        return str(error.value)

    def test_two_mistakes_that_look_alike(self) -> None:
        twin = replace(self.clip.mistakes[0], id="twin")
        told = self.refused(mistakes=(*self.clip.mistakes, twin))
        assert "the mistakes per-parameter and twin give the same" in told
        assert "add a case that tells them apart" in told

    def test_a_mistake_that_shows_nowhere(self) -> None:
        right = replace(self.clip.mistakes[0], id="harmless", simulate=given({}))
        assert "harmless gives the right values on every visible case" in self.refused(mistakes=(right,), parts=())

    def test_a_mistake_that_cannot_be_computed(self) -> None:
        forgot_the_rest = replace(self.clip.mistakes[0], simulate=given({"clipping.norm": lambda max_norm: max_norm}))
        told = self.refused(mistakes=(forgot_the_rest, *self.clip.mistakes[1:]))
        assert f"03a-clip: what the mistake {forgot_the_rest.id} gives cannot be computed for the case" in told
        assert "`**_`" in told

    def test_names_that_do_not_fit(self) -> None:
        first = self.clip.parts[0]
        assert "there is no mistake typo" in self.refused(parts=(replace(first, unless=("typo",)),))
        assert "there is no part typo" in self.refused(parts=(replace(first, needs="typo"),))
        assert "'norm' is not PART.FIELD" in self.refused(parts=(Graded("norm", 1, ("norm",)),))
        assert "two parts are called direction" in self.refused(parts=(first, first))
        field = f"{first.fields[0].partition('.')[0]}.typo"
        assert f"the reference never gives '{field}'" in self.refused(parts=(replace(first, fields=(field,)),))
        assert "two mistakes are called" in self.refused(mistakes=self.clip.mistakes[:1] * 2, parts=())
