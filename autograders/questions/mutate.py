"""Finds the gaps of a question's hidden cases: mutants of its right answers that would get full points."""

from __future__ import annotations

import difflib
import math
import os
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lecture_lib.notebook.compare import difference
from lecture_lib.notebook.observe import observe

from .answer_process import Observed, Program, observe_programs, observe_sets
from .bank import Answer, BankError
from .cases import Case
from .domain import AnswerStoppedError, first_difference, sample
from .in_process import functions_of
from .mutants import Mutant, mutants
from .published_tables import put_rows, row
from .question import Question, encode_inputs
from .seeds import POOL
from .verify import Sets, cells

_TIMES_THE_ANSWERS_CPU = 10
_AT_A_TIME = 20
"""Mutants that share a process."""


class Fate(StrEnum):
    """What became of a mutant."""

    VISIBLE = "loses on the visible cases"
    HIDDEN = "loses on every set"
    SOME_SETS = "loses on some sets only"
    GAP = "full points, though it is wrong on the domain"
    SAME = "full points, and right wherever the domain was tried"


WRONG_FATES = (Fate.SOME_SETS, Fate.GAP)
"""What a maintainer must mend: a wider draw, or a wording that allows it."""


def mutate(question: Question, answers: Sequence[Answer] | None = None) -> Iterator[tuple[Answer, Mutant, Fate, str]]:
    """Each mutant of some right answers of a question, and what became of it, with a case where it is wrong.

    Args:
        question: a question of the course.
        answers: default: the first right answer of the bank and the one most unlike it.

    Raises BankError when an answer that is to be edited does not get full points itself.

    """
    question = question.of_course(Sets.secret)
    setup, seconds = cells(question)[0], None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for answer in _chosen(question) if answers is None else answers:
            seconds = seconds or _seconds(question, answer)
            trial = _Trial(question, setup, answer, seconds)
            if not trial.answer_is_right():
                raise BankError(
                    f"{question.id}, {answer.name}: the answer itself does not get full points, so its mutants say "
                    f"nothing. Run `autograde verify --question {question.id}` first."
                )
            wanted = mutants(answer.source, _types(question, answer))
            groups = [wanted[start : start + _AT_A_TIME] for start in range(0, len(wanted), _AT_A_TIME)]
            for group, fates in zip(groups, pool.map(trial.fates, groups), strict=True):
                for mutant, (fate, case) in zip(group, fates, strict=True):
                    yield answer, mutant, fate, case


def _chosen(question: Question) -> list[Answer]:
    right = [answer for answer in question.answers() if answer.points == question.points and not answer.misconception]
    if len(right) < 2:
        return right
    # Beside the first right answer the one least like it: another way to solve the question has other slips.
    likeness = [difflib.SequenceMatcher(None, right[0].source, answer.source).ratio() for answer in right[1:]]
    return [right[0], right[1 + likeness.index(min(likeness))]]


def _seconds(question: Question, answer: Answer) -> int:
    """The limit of computing time for one mutant on one set."""
    started = time.process_time()
    functions = functions_of(question, answer)
    for case in question.draw(Sets.secret, Sets.version, 0):
        observe(question.public, functions, case.inputs)
    return max(1, math.ceil(_TIMES_THE_ANSWERS_CPU * (time.process_time() - started)))


def _types(question: Question, answer: Answer) -> dict[str, str]:
    """The types of an answer's variables, traced while it runs on the visible cases. A name of two types has none."""
    functions = functions_of(question, answer)
    traced: dict[str, set[str]] = {}

    def trace(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_filename == "answer":
            for name, value in frame.f_locals.items():
                traced.setdefault(name, set()).add(type(value).__name__)

    # A profile function is called once for each return, when a variable has its last value; settrace, for every line.
    sys.setprofile(trace)
    try:
        for case in question.public.cases:
            observe(question.public, functions, case.inputs)
    finally:
        sys.setprofile(None)
    return {name: min(kinds) for name, kinds in traced.items() if len(kinds) == 1 and not name.startswith(".")}


@dataclass(frozen=True)
class _Trial:
    """One question on which mutants are tried."""

    question: Question
    setup: list[str]
    """The set-up cells of its notebook."""
    answer: Answer
    """The right answer that was edited."""
    seconds: int
    """The computing time of a mutant on one set."""

    def answer_is_right(self) -> bool:
        """Whether the answer, unedited, is right on the visible cases and gets full points on a set."""
        (on_visible,) = self._observe([], self._visible(), 0)
        (on_set,) = self._observe([], self._inputs(0), 1)
        return _right_on_visible(self.question, on_visible) and self._full_points(0, on_set)

    def fates(self, group: Sequence[Mutant]) -> list[tuple[Fate, str]]:
        """The visible cases first, then a set, and only then the other sets and the domain.

        Mutants share a process, which takes longer to start than most of them run. If one may have spoilt it (the
        process ended, or the right answer is no longer right behind them), each gets a process of its own.
        """
        on_visible = list(self._observe(group, self._visible(), 0))
        right_on_visible = [_right_on_visible(self.question, observed) for observed in on_visible]
        open_ones = [number for number in range(len(group)) if right_on_visible[number]]
        on_set = list(self._observe([group[number] for number in open_ones], self._inputs(0), 1))
        full = [self._full_points(0, observed) for observed in on_set]
        ended = any(observed.incident is not None for observed in [*on_visible, *on_set])
        if len(group) > 1 and (ended or not (right_on_visible[-1] and full[-1])):
            return [self.fates([mutant])[0] for mutant in group]
        fates = [(Fate.VISIBLE, "")] * len(group)
        # Not strict: the last entry of `full` is that of the right answer, which runs behind the mutants.
        for number, right in zip(open_ones, full, strict=False):
            fates[number] = self._on_all_sets(group[number]) if right else (Fate.HIDDEN, "")
        return fates

    def _observe(self, group: Sequence[Mutant], inputs: list[Any], seed: int) -> Iterator[Observed]:
        """Each mutant, and at last the answer that they were made from."""
        sources = [*(mutant.source for mutant in group), self.answer.source]
        programs = [Program([*self.setup, source], inputs, seed) for source in sources]
        return observe_programs(self.question, programs, self.seconds)

    def _on_all_sets(self, mutant: Mutant) -> tuple[Fate, str]:
        sources = [*self.setup, mutant.source]
        rest = observe_sets(self.question, sources, list(map(self._inputs, range(1, POOL))), self.seconds)
        losing = [index for index, observed in enumerate(rest, 1) if not self._full_points(index, observed)]
        if losing:
            return Fate.SOME_SETS, f"loses on set {', '.join(map(str, losing))} of {POOL}"
        try:
            differs = first_difference(self.question, sources, sample(self.question.description))
        except AnswerStoppedError as error:
            return Fate.GAP, str(error)
        return (Fate.SAME, "") if differs is None else (Fate.GAP, f"wrong for {dict(differs.inputs)}")

    def _visible(self) -> list[Any]:
        return encode_inputs([Case(case.name, case.inputs) for case in self.question.public.cases])

    def _inputs(self, index: int) -> list[Any]:
        return encode_inputs(self.question.draw(Sets.secret, Sets.version, index))

    def _full_points(self, index: int, observed: Observed) -> bool:
        if observed.incident is not None:
            return False
        verdict = self.question.judge(self.question.draw(Sets.secret, Sets.version, index), observed.published)
        return verdict.points == self.question.points


def _right_on_visible(question: Question, observed: Observed) -> bool:
    if observed.incident is not None:
        return False
    observations = question.read(observed.published[0], len(question.public.cases))
    return not any(
        difference(dict(observation[part].get("value") or {}), dict(expected), question.public.relative_tolerance)
        for case, observation in zip(question.public.cases, observations, strict=True)
        for part, expected in case.expected.items()
    )


_COLUMNS = (Fate.VISIBLE, Fate.HIDDEN, Fate.SOME_SETS, Fate.GAP, Fate.SAME)


def update_table(counts: Mapping[str, Mapping[Fate, int]]) -> None:
    """Put the fates of some questions' mutants into the published table; other rows stay."""
    lines = [row(["question", "mutants", *_COLUMNS]), row(["---"] * (2 + len(_COLUMNS)))]
    for question, fates in counts.items():
        lines.append(row([question, sum(fates.values()), *(fates.get(fate, 0) for fate in _COLUMNS)]))
    put_rows("mutate", "\n".join(lines))
