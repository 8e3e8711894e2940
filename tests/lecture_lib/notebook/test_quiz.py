"""The quiz: each option has its own answer, and nothing that a student may write in the cell stops the notebook."""

from __future__ import annotations

import pytest

from lecture_lib.notebook import quiz
from lecture_lib.notebook.quiz import quiz_answer

ANSWERS = {"a": "Too slow.", "b": "Hides <the> fault.", "c": "Takes seconds."}


@pytest.mark.parametrize("option", ANSWERS)
def test_each_option_has_its_own_answer(option: str) -> None:
    shown = quiz_answer(option, ANSWERS)
    assert shown.chosen == ((option, ANSWERS[option]),)
    assert {name for name, _ in shown.unchosen} == set(ANSWERS) - {option}
    assert ANSWERS[option] in repr(shown)
    assert not any(answer in repr(shown) for _, answer in shown.unchosen)


@pytest.mark.parametrize("written", ["c", "C", "(c)", " c ", "c."])
def test_an_option_may_be_written_in_several_ways(written: str) -> None:
    assert quiz_answer(written, ANSWERS).chosen == (("c", ANSWERS["c"]),)


@pytest.mark.parametrize("written", ["d", "", 3, 2.5, ["c"], "<script>"])
def test_what_is_no_option_is_said_and_stops_nothing(written: object) -> None:
    shown = quiz_answer(written, ANSWERS)
    assert "There is no option" in repr(shown)
    assert '"a", "b", "c"' in repr(shown)
    assert shown.chosen == ()
    assert "<script>" not in shown._repr_html_()


def test_without_a_choice_nothing_is_given_away() -> None:
    shown = quiz_answer(None, ANSWERS)
    assert "No choice yet" in repr(shown)
    assert not any(answer in repr(shown) + shown._repr_html_() for answer in ANSWERS.values())


def test_an_earlier_choice_is_remembered_and_answered_too(capsys: pytest.CaptureFixture[str]) -> None:
    quiz("test-quiz", "(B)", ANSWERS)
    quiz("test-quiz", None, ANSWERS)
    assert capsys.readouterr().out.count("You chose (b).") == 2
    quiz("test-quiz", "no option", ANSWERS)
    quiz("test-quiz", "c", ANSWERS)
    said = capsys.readouterr().out
    assert "You chose (c); earlier it was (b)." in said
    assert ANSWERS["b"] in said
    quiz("test-quiz", "c", ANSWERS)
    assert "earlier" not in capsys.readouterr().out


def test_a_quiz_that_is_only_asked_folds_nothing() -> None:
    shown = quiz_answer("a", dict.fromkeys("abc", "Kept."))
    assert shown.chosen == (("a", "Kept."),)
    assert shown.unchosen == ()


def test_the_page_escapes_answers_and_folds_the_others() -> None:
    page = quiz_answer("c", ANSWERS)._repr_html_()
    assert "Hides &lt;the&gt; fault." in page
    assert page.count("<details>") == 2
    assert page.index(ANSWERS["c"]) < page.index("<details>")
