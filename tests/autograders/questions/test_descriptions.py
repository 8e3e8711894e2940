"""Descriptions: what is derived from them is fresh, and the bank's answers keep to the declared domains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograders.questions.description import Description, DescriptionError, Graded, given
from autograders.questions.domain import differing, sample
from autograders.questions.question import QUESTIONS, Question
from autograders.questions.verify import cells
from autograders.questions.visible import visible_cases

pytestmark = pytest.mark.slow

DESCRIBED = {name: question for name, question in QUESTIONS.items() if isinstance(question.hidden, Description)}


def test_the_visible_cases_are_as_their_descriptions_say() -> None:
    stale = [path.name for path, text in visible_cases() if path.read_text("utf-8") != text]
    assert not stale, "run `autograde build --questions`"


@pytest.mark.parametrize("question", DESCRIBED.values(), ids=DESCRIBED)
def test_right_answers_agree_on_the_domain_and_wrong_ones_do_not(question: Question) -> None:
    assert isinstance(question.hidden, Description)
    cases = sample(question.hidden)
    for answer in question.answers():
        differs = differing(question, [*cells(question)[0], answer.source], cases)
        if answer.misconception is None and answer.points == question.points:
            assert not differs, f"{answer.name}: {differs[0].inputs}"
        else:
            assert differs, f"{answer.name} agrees on {len(cases)} cases of the domain"


class TestContradictions:
    """A description that contradicts itself is refused with the remedy."""

    clip = QUESTIONS["03a-clip"].hidden

    def refused(self, **changes: object) -> str:
        assert isinstance(self.clip, Description)
        changed = replace(self.clip, **changes)  # type: ignore[arg-type]
        with pytest.raises(DescriptionError) as error:
            _ = changed.check() or changed.public_cases()
        return str(error.value)

    def test_two_mistakes_that_look_alike(self) -> None:
        assert isinstance(self.clip, Description)
        twin = replace(self.clip.mistakes[0], id="twin")
        told = self.refused(mistakes=(*self.clip.mistakes, twin))
        assert "the mistakes per-parameter and twin give the same" in told
        assert "add a case that tells them apart" in told

    def test_a_mistake_that_shows_nowhere(self) -> None:
        assert isinstance(self.clip, Description)
        right = replace(self.clip.mistakes[0], id="harmless", simulate=given({}))
        assert "harmless gives the right values on every visible case" in self.refused(mistakes=(right,), parts=())

    def test_names_that_do_not_fit(self) -> None:
        assert isinstance(self.clip, Description)
        first = self.clip.parts[0]
        assert "there is no mistake typo" in self.refused(parts=(replace(first, unless=("typo",)),))
        assert "there is no part typo" in self.refused(parts=(replace(first, needs="typo"),))
        assert "'norm' is not PART.FIELD" in self.refused(parts=(Graded("norm", 1, ("norm",)),))
        assert "two parts are called direction" in self.refused(parts=(first, first))
        assert "two mistakes are called" in self.refused(mistakes=self.clip.mistakes[:1] * 2, parts=())
