"""What grading an answer costs is measured where it is spent, and a question above the limit is named."""

from __future__ import annotations

import pytest

from autograders.__main__ import main
from autograders.commands import question_commands
from autograders.questions.bank import Answer
from autograders.questions.in_process import cost_of
from autograders.questions.question import QUESTIONS, answer_to

pytestmark = pytest.mark.slow

QUESTION = QUESTIONS["03b-buckets"]
WASTE = """
import time as _time


def _waste(seconds):
    until = _time.process_time() + seconds
    while _time.process_time() < until:
        pass


def _slow(function):
    return lambda *arguments: (_waste(0.05), function(*arguments))[1]
"""


def test_time_is_booked_where_it_is_spent() -> None:
    """An answer whose calls waste time is that much dearer; what its cell does by itself is not counted."""
    right = f"{answer_to(QUESTION.id, QUESTION.answers()[0].name)}\n{WASTE}"
    slow = right + "".join(f"{name} = _slow({name})\n" for name in QUESTION.public.functions)
    cost, dear = (cost_of(QUESTION, Answer("x", text, 0, None, "")) for text in (f"{right}_waste(0.5)\n", slow))
    calls = len(QUESTION.draw(b"verify", "verify", 0)) * len(QUESTION.public.functions)
    assert cost.observing < 0.5
    assert dear.observing > cost.observing + 0.04 * calls


def test_a_question_above_the_limit_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--times", "--question", QUESTION.id]) == 0
    monkeypatch.setattr(question_commands, "_MOST_SECONDS", 0)
    assert main(["verify", "--times", "--question", QUESTION.id]) == 1
    within, above = capsys.readouterr().out.split("above 2 s: ")
    assert within.splitlines()[1].startswith(QUESTION.id)
    assert above.rstrip().endswith(f"above 0 s: {QUESTION.id}")
