"""Runs every answer of the bank through probe and judge: each must get what it declares, on every set of inputs."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nbformat import NotebookNode

from lecture_lib.notebook.misconceptions import GENERAL

from .. import notebooks
from ..course import STUB
from .answer_process import observe_sets
from .bank import Answer
from .case_lines import WRONG, case_lines, departures
from .cases import Case, Observation
from .judgement import Simulated
from .published_tables import put_rows, row
from .question import QUESTIONS, Question, encode_inputs
from .seeds import POOL
from .verdict import UNANSWERED
from .verdict_cache import Result, VerdictCache, result_key


@dataclass(frozen=True)
class Sets:
    """Sets of hidden inputs: those that a course draws from its secret for one version of an assignment."""

    secret: bytes = b"verify"
    version: str = "verify"
    indices: Sequence[int] = range(POOL)


@dataclass(frozen=True)
class Outcome:
    """What one answer declares and what it got, set by set."""

    question: str
    answer: Answer
    results: tuple[Result, ...]
    sets: Sets = Sets()
    variant: str = ""
    """Of the question, where it has several."""

    @property
    def holds(self) -> bool:
        """Whether every set gave exactly the declared points and misconception."""
        return not self.differing

    @property
    def differing(self) -> list[int]:
        """The indices of the sets that gave something else."""
        declared = self.answer.points, self.answer.misconception
        return [index for index, result in zip(self.sets.indices, self.results, strict=True) if result[:2] != declared]

    def __str__(self) -> str:
        declared = _told(self.answer.points, self.answer.misconception)
        indices_of: dict[str, list[int]] = {}
        for index, result in zip(self.sets.indices, self.results, strict=True):
            if index in self.differing:
                result_text = _told(result.points, result.misconception) + (
                    f", {result.incident}" if result.incident else ""
                )
                indices_of.setdefault(result_text, []).append(index)
        differences = "; ".join(f"{text} on set {', '.join(map(str, indices))}" for text, indices in indices_of.items())
        question = f"{self.question} ({self.variant})" if self.variant else self.question
        return f"{question}, {self.answer.name}: declares {declared}; got {differences or 'that on every set'}"


def _told(points: float, misconception: str | None) -> str:
    return f"{points:g} points" + (f" and {misconception}" if misconception else "")


def verify(
    questions: Sequence[Question] | None = None,
    sets: Sets | None = None,
    *,
    cache: VerdictCache | None = None,
    workers: int | None = None,
) -> Iterator[Outcome]:
    """Every answer of every question, and the empty one, on `sets`, in this order; for each variant of a question.

    Args:
        questions: default: all.
        sets: default: a pool of eight that never changes, so that a second run finds its results in the cache.
        cache: where results are kept; default: `build/verdicts.sqlite` in the checkout.
        workers: answers at a time; default: one for each processor.

    """
    sets, cache = sets or Sets(), cache or VerdictCache()
    wanted = [
        (variation, setup, answer)
        for question in (QUESTIONS.values() if questions is None else questions)
        for variation in question.of_each_course()
        for setup, answers in [_answers(variation)]
        for answer in answers
    ]
    pool = ThreadPoolExecutor(workers or os.cpu_count())
    try:
        yield from pool.map(lambda item: _outcome(item[0], item[1], item[2], sets, cache), wanted)
    finally:
        # Whoever stops reading early must not wait for the answers that are left.
        pool.shutdown(cancel_futures=True)


def count(questions: Sequence[Question]) -> int:
    """How many outcomes `verify` gives for these questions."""
    return sum(len(variation.answers()) + 1 for question in questions for variation in question.of_each_course())


def _answers(question: Question) -> tuple[list[str], list[Answer]]:
    setup, stub = cells(question)
    return setup, [*question.answers(), Answer("(empty)", stub, 0.0, UNANSWERED, "the cell as released")]


@functools.lru_cache(maxsize=POOL)  # answers come question by question
def _simulated(*drawn: object) -> Simulated:
    """What is kept between the answers that are judged on the same cases."""
    return {}


def _outcome(question: Question, setup: list[str], answer: Answer, sets: Sets, cache: VerdictCache) -> Outcome:
    sources = [*setup, answer.source]
    variant = question.variant.name if question.variant else ""
    drawn_from = f"{sets.version} {variant}".rstrip()
    keys = {
        index: result_key(question.file, question.id, sources, sets.secret, drawn_from, index) for index in sets.indices
    }
    results = cache.read(keys.values())
    missing = [index for index in sets.indices if keys[index] not in results]
    if missing:
        drawn = [question.draw(sets.secret, sets.version, index) for index in missing]
        observed_sets = observe_sets(question, sources, list(map(encode_inputs, drawn)))
        fresh = {}
        for index, cases, observed in zip(missing, drawn, observed_sets, strict=True):
            described = question.description
            drawn_by = described.reference, described.draw, sets.secret, drawn_from, index
            verdict = (
                question.judge(cases, observed.published, _simulated(described.mistakes, *drawn_by))
                if observed.incident is None
                else question.zero(observed.incident)
            )
            incident = None if verdict.incident is None else verdict.incident.text
            fresh[keys[index]] = Result(verdict.points, verdict.misconception, incident)
        # Answer by answer, so that a run that is interrupted keeps what it has found.
        cache.write(fresh)
        results |= fresh
    return Outcome(question.id, answer, tuple(results[keys[index]] for index in sets.indices), sets, variant)


def where_it_differs(outcome: Outcome) -> Iterator[str]:
    """What the first set that differs gave, part by part, and the cases in which something is wrong. Runs it again."""
    index = outcome.differing[0]
    variants = QUESTIONS[outcome.question].of_each_course()
    question = next(each for each in variants if outcome.variant == (each.variant.name if each.variant else ""))
    drawn = question.draw(outcome.sets.secret, outcome.sets.version, index)
    (observed,) = observe_sets(question, [*cells(question)[0], outcome.answer.source], [encode_inputs(drawn)])
    verdict = question.zero(observed.incident) if observed.incident else question.judge(drawn, observed.published)
    yield f"set {index}:"
    yield from (f"  {part.name}: {part.points:g} of {part.maximum:g}: {part.message}" for part in verdict.parts)
    if verdict.incident is None:
        observations = question.read(observed.published[0], len(drawn))
        yield from why_not_named(question, outcome.answer.misconception, verdict.misconception, drawn, observations)
        for number, (case, observation) in enumerate(zip(drawn, observations, strict=True), 1):
            lines = list(case_lines(question, number, case, observation))
            if any(line.strip().startswith(WRONG) for line in lines):
                yield from (f"  {line}" for line in lines)


def why_not_named(
    question: Question,
    declared: str | None,
    named: str | None,
    cases: Sequence[Case],
    observations: Sequence[Observation],
) -> Iterator[str]:
    """Where an answer does not do what the mistake that it declares would do, in each of the mistake's forms."""
    if declared in (None, named):
        return
    yield f"  named: {named or 'no misconception'}, not {declared}"
    mistakes = question.description.mistakes
    forms = next((mistake.forms() for mistake in mistakes if mistake.id == declared), {})
    if not forms and declared not in GENERAL:
        yield f"  the description has no mistake {declared}; it has {', '.join(mistake.id for mistake in mistakes)}"
    for form, simulate in forms.items():
        departure = next(departures(question, simulate, cases, observations), None)
        if departure:
            yield f"  {form} would give {departure}"


def cells(question: Question) -> tuple[list[str], str]:
    """The set-up cells of the question's notebook, and its answer cell as released, without the solution."""
    for assignment in notebooks.assignments():
        nb = notebooks.read(notebooks.master_path(assignment))
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == question.id:
                stub = question.variant.stub if question.variant else ""
                return _setup(nb), stub or notebooks.separate_solutions(cell.source, STUB)[0]
    raise notebooks.NotebookError(f"no notebook asks {question.id}: run `make notebooks`")


def _setup(nb: NotebookNode) -> list[str]:
    return [cell.source for cell in nb.cells if "setup" in cell.metadata.get("tags", [])]


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a Markdown table: what each answer declares, and whether it got it, on all variants in a row."""
    lines = [row(["question", "answer", "points", "misconception", "as declared"]), row(["---"] * 5)]
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.question, outcome.answer.name), []).append(outcome)
    for (question, answer), answer_outcomes in rows.items():
        results = [result for outcome in answer_outcomes for result in outcome.results]
        got = " / ".join(f"{points:g}" for points in sorted({result.points for result in results}))
        named = " / ".join(sorted({str(result.misconception or "–") for result in results}))
        wrong = [outcome.answer for outcome in answer_outcomes if not outcome.holds]
        verdict = f"no: declares {wrong[0].points:g}, {wrong[0].misconception}" if wrong else "yes"
        lines.append(row([question, answer, got, named, verdict]))
    return "\n".join(lines)


def update_table(outcomes: Sequence[Outcome]) -> None:
    """Put the rows of some questions into the published table; other rows stay."""
    put_rows("verify", table(outcomes))
