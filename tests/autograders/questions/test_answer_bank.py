"""Every answer of the bank gets exactly what it declares, on a course's pool of hidden inputs and on fresh ones."""

from __future__ import annotations

import ast
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autograders.questions import verdict_cache
from autograders.questions import verify as verify_module
from autograders.questions.bank import Answer
from autograders.questions.question import QUESTIONS, Question
from autograders.questions.seeds import POOL
from autograders.questions.verdict_cache import Result, VerdictCache, result_key
from autograders.questions.verify import Sets, verify

pytestmark = pytest.mark.slow

BY_ID = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)


@BY_ID
def test_every_answer_gets_what_it_declares_on_the_pool(
    question: Question, kept_verdicts: VerdictCache, repetitions: Callable[[int, int], int]
) -> None:
    """On one of the eight sets that `autograde verify` tries; in `make test-full` on all of them, observed anew."""
    outcomes = list(verify([question], Sets(indices=range(repetitions(1, POOL))), cache=kept_verdicts, workers=1))
    assert not [str(outcome) for outcome in outcomes if not outcome.holds]


@BY_ID
def test_every_answer_gets_what_it_declares_on_sets_that_no_run_has_seen(
    question: Question, fresh_secret: bytes, repetitions: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five answers drawn by this run, on a set of it; in `make test-full` all of them on twenty."""
    sets = Sets(fresh_secret, "fresh", range(repetitions(1, 20)))
    bank = verify_module._answers
    most = repetitions(5, len(question.answers()) + 1)

    def drawn(variation: Question) -> tuple[list[str], list[Answer]]:
        setup, answers = bank(variation)
        return setup, random.Random(fresh_secret).sample(answers, min(most, len(answers)))

    monkeypatch.setattr(verify_module, "_answers", drawn)
    outcomes = list(verify([question], sets, cache=VerdictCache(None), workers=1))
    assert len(outcomes) == most * len(question.of_each_course())
    wrong = [str(outcome) for outcome in outcomes if not outcome.holds]
    assert not wrong, f"secret {fresh_secret.hex()}"


class TestCache:
    """Verdicts are kept for exactly what they depend on."""

    question = QUESTIONS["03b-baseline"]

    def test_a_second_run_observes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cache, sets = VerdictCache(tmp_path / "verdicts.sqlite"), Sets(indices=(0, 1))
        first = list(verify([self.question], sets, cache=cache))
        monkeypatch.setattr(verify_module, "observe_sets", pytest.fail)
        assert list(verify([self.question], sets, cache=cache)) == first

    def test_only_sets_that_are_not_known_are_observed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cache = VerdictCache(tmp_path / "verdicts.sqlite")
        list(verify([self.question], Sets(indices=(0,)), cache=cache))
        counts = []
        observe = verify_module.observe_sets

        def counting(question, sources, sets):
            counts.append(len(sets))
            return observe(question, sources, sets)

        monkeypatch.setattr(verify_module, "observe_sets", counting)
        outcomes = list(verify([self.question], Sets(indices=(0, 1, 2)), cache=cache))
        assert all(outcome.holds for outcome in outcomes)
        assert counts == [2] * len(outcomes)

    def test_the_key_changes_with_everything_that_can_change_the_result(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        judge = self.question.file
        given = (judge, "03b-baseline", ("x = 1",), b"s", "v", 0)
        others = [
            (judge, "03b-baseline", ("x = 2",), b"s", "v", 0),
            (judge, "03b-baseline", ("x = 1",), b"t", "v", 0),
            (judge, "03b-baseline", ("x = 1",), b"s", "w", 0),
            (judge, "03b-baseline", ("x = 1",), b"s", "v", 1),
            (judge.with_name("curves.py"), "03b-curves", ("x = 1",), b"s", "v", 0),
        ]
        keys = {result_key(*arguments) for arguments in [given, *others]}
        assert len(keys) == 6
        assert result_key(*given) in keys
        changed = tmp_path / "judge.py"
        changed.write_text(judge.read_text("utf-8") + "\n", "utf-8")
        assert result_key(changed, *given[1:]) not in keys
        monkeypatch.setattr(verdict_cache, "version", lambda package: "99")
        for function in (verdict_cache.code_digest, verdict_cache._shared_digest):
            function.cache_clear()
        assert result_key(*given) not in keys
        monkeypatch.undo()
        for function in (verdict_cache.code_digest, verdict_cache._shared_digest):
            function.cache_clear()
        assert result_key(*given) in keys

    def test_the_code_behind_a_question_reaches_the_modules_beside_it(self) -> None:
        judge = QUESTIONS["03b-overfit"].file
        names = {path.name for path in verdict_cache._reached([judge, *verdict_cache._public_files("03b-overfit")])}
        assert names == {"overfit.py", "branches.py", "overfit_programs.py"}

    def test_one_thread_at_a_time_parses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`verify` has a thread for each processor, and two of them that parsed at once stopped it."""
        parse, busy, together = verdict_cache.ast.parse, threading.Lock(), []

        def watched(*arguments: Any, **settings: Any) -> ast.AST:
            alone = busy.acquire(blocking=False)
            together.append(not alone)
            time.sleep(0.01)
            if alone:
                busy.release()
            return parse(*arguments, **settings)

        monkeypatch.setattr(verdict_cache.ast, "parse", watched)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(verdict_cache._reached, [[self.question.file]] * 8))
        assert len(together) >= 8
        assert not any(together)

    def test_the_oldest_results_are_dropped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verdict_cache, "_MOST_ROWS", 3)
        cache = VerdictCache(tmp_path / "verdicts.sqlite")
        for name in "abcde":
            cache.write({name: Result(1.0, None, None)})
        assert set(cache.read("abcde")) == set("cde")

    def test_a_cache_that_another_process_is_writing_to_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verdict_cache, "_BUSY_SECONDS", 0.1)
        cache = VerdictCache(tmp_path / "verdicts.sqlite")
        cache.write({"a": Result(1.0, "b", None)})
        other = sqlite3.connect(tmp_path / "verdicts.sqlite")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            cache.read(["a"])
        other.close()
        assert cache.read(["a"]) == {"a": Result(1.0, "b", None)}
