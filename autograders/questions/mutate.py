"""Finds the gaps of a question's hidden cases: mutants of its right answers that would get full points."""

from __future__ import annotations

import contextlib
import difflib
import io
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
from lecture_lib.notebook.process_state import reset_process

from ..files import write_text_atomically
from ..notebooks import ROOT
from .answer_process import Observed, observe_sets
from .bank import Answer
from .cases import Case
from .domain import AnswerStoppedError, differing, sample
from .mutants import Mutant, mutants
from .question import Question, encode_inputs
from .seeds import POOL
from .verify import cells

_SECRET, _VERSION = b"verify", "verify"
_TIMES_THE_ANSWERS_CPU = 10


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

    """
    question = question.of_course(_SECRET)
    wanted = [
        (answer, mutant)
        for answer in (_chosen(question) if answers is None else answers)
        for mutant in mutants(answer.source, _types(question, answer))
    ]
    trial = _Trial(question, cells(question)[0], _seconds(question, wanted[0][0]) if wanted else 1)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        fates = pool.map(lambda item: trial.fate(item[1]), wanted)
        for (answer, mutant), (fate, case) in zip(wanted, fates, strict=True):
            yield answer, mutant, fate, case


def _chosen(question: Question) -> list[Answer]:
    right = [answer for answer in question.answers() if answer.points == question.points and not answer.misconception]
    if len(right) < 2:
        return right
    likeness = [difflib.SequenceMatcher(None, right[0].source, other.source).ratio() for other in right[1:]]
    return [right[0], right[1 + likeness.index(min(likeness))]]


def _seconds(question: Question, answer: Answer) -> int:
    """The limit of computing time for one mutant on one set."""
    started = time.process_time()
    namespace = _namespace(question, answer)
    for case in question.draw(_SECRET, _VERSION, 0):
        observe(question.public, _functions(question, namespace), case.inputs)
    return max(1, math.ceil(_TIMES_THE_ANSWERS_CPU * (time.process_time() - started)))


def _namespace(question: Question, answer: Answer) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    reset_process()
    with contextlib.redirect_stdout(io.StringIO()):
        for source in cells(question)[0]:
            exec(compile(source, question.id, "exec"), namespace)
        exec(compile(answer.source, "answer", "exec"), namespace)
    return namespace


def _functions(question: Question, namespace: dict[str, Any]) -> dict[str, Any]:
    return {name: namespace[name] for name in question.public.functions}


def _types(question: Question, answer: Answer) -> dict[str, str]:
    """The types of an answer's variables, traced while it runs on the visible cases. A name of two types has none."""
    namespace = _namespace(question, answer)
    traced: dict[str, set[str]] = {}

    def trace(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_filename == "answer":
            for name, value in frame.f_locals.items():
                traced.setdefault(name, set()).add(type(value).__name__)

    sys.setprofile(trace)
    try:
        for case in question.public.cases:
            observe(question.public, _functions(question, namespace), case.inputs)
    finally:
        sys.setprofile(None)
    return {name: min(kinds) for name, kinds in traced.items() if len(kinds) == 1 and not name.startswith(".")}


@dataclass(frozen=True)
class _Trial:
    """One question on which mutants are tried."""

    question: Question
    setup: list[str]
    """The set-up cells of its notebook."""
    seconds: int
    """The computing time of a mutant on one set."""

    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        """The visible cases first, then a set, and only then the other sets and the domain."""
        sources = [*self.setup, mutant.source]
        visible = encode_inputs([Case(case.name, case.inputs) for case in self.question.public.cases])
        observed = observe_sets(self.question, sources, [visible, self._inputs(0)], self.seconds)
        with contextlib.closing(observed):
            if not _right_on_visible(self.question, next(observed)):
                return Fate.VISIBLE, ""
            if not self._full_points(0, next(observed)):
                return Fate.HIDDEN, ""
        rest = observe_sets(self.question, sources, list(map(self._inputs, range(1, POOL))), self.seconds)
        losing = [index for index, seen in enumerate(rest, 1) if not self._full_points(index, seen)]
        if losing:
            return Fate.SOME_SETS, f"loses on set {', '.join(map(str, losing))} of {POOL}"
        try:
            differs = differing(self.question, sources, sample(self.question.description))
        except AnswerStoppedError as error:
            return Fate.GAP, str(error)
        return (Fate.GAP, f"wrong for {dict(differs[0].inputs)}") if differs else (Fate.SAME, "")

    def _inputs(self, index: int) -> list[Any]:
        return encode_inputs(self.question.draw(_SECRET, _VERSION, index))

    def _full_points(self, index: int, observed: Observed) -> bool:
        if observed.incident is not None:
            return False
        verdict = self.question.judge(self.question.draw(_SECRET, _VERSION, index), observed.published)
        return verdict.points == self.question.points


def _right_on_visible(question: Question, observed: Observed) -> bool:
    if observed.incident is not None:
        return False
    seen = question.read(observed.published[0], len(question.public.cases))
    return not any(
        difference(dict(observation[part].get("value") or {}), dict(expected), question.public.relative_tolerance)
        for case, observation in zip(question.public.cases, seen, strict=True)
        for part, expected in case.expected.items()
    )


_BEGIN, _END = "<!-- mutate: begin -->", "<!-- mutate: end -->"
_COLUMNS = (Fate.VISIBLE, Fate.HIDDEN, Fate.SOME_SETS, Fate.GAP, Fate.SAME)


def update_table(counts: Mapping[str, Mapping[Fate, int]]) -> None:
    """Put the fates of some questions' mutants into the table of autograders/README.md; other rows stay."""
    path = ROOT / "autograders/README.md"
    head, rest = path.read_text("utf-8").split(_BEGIN)
    written, tail = rest.split(_END)
    rows = {row.split(" | ")[0].strip("| "): row for row in written.strip().splitlines()[2:]}
    for question, fates in counts.items():
        cells = [question, sum(fates.values()), *(fates.get(fate, 0) for fate in _COLUMNS)]
        rows[question] = f"| {' | '.join(map(str, cells))} |"
    names = ["question", "mutants", *_COLUMNS]
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *(rows[name] for name in sorted(rows))]
    write_text_atomically(path, f"{head}{_BEGIN}\n" + "\n".join(table) + f"\n{_END}{tail}")
