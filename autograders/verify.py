"""Runs every answer of the bank through probe and judge: each must get what it declares."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from . import notebooks
from .bank import Answer
from .course import STUB
from .files import write_text_atomically
from .probes import observe_cases
from .questions import QUESTIONS, UNANSWERED, Question, encode_inputs

SECONDS = 30
_PRELOADED = [
    *(
        "torch",
        "torch._dynamo",
        "matplotlib.pyplot",
        "sklearn.metrics",
        "lecture_lib.analysis",
        "lecture_lib.experiments",
    ),
    *("lecture_lib.debugging", "lecture_lib.notebook", "autograders.verify"),
]
"""Imported once, not by every answer: an optimizer's first step imports torch._dynamo."""


@dataclass(frozen=True)
class Outcome:
    """What one answer declares and what it got, over all seeds."""

    question: str
    answer: Answer
    points: tuple[float, ...]
    misconceptions: tuple[str | None, ...]

    @property
    def holds(self) -> bool:
        """Whether every seed gave exactly the declared points and misconception."""
        return set(self.points) == {self.answer.points} and set(self.misconceptions) == {self.answer.misconception}


def verify(questions: Sequence[Question] | None = None, seeds: int = 3) -> Iterator[Outcome]:
    """Every answer of every question, and the empty one, on `seeds` sets of hidden inputs."""
    for question in QUESTIONS.values() if questions is None else questions:
        setup, stub = _cells(question)
        empty = Answer("(empty)", stub, 0.0, UNANSWERED, "the cell as released")
        for answer in [*question.answers(), empty]:
            verdicts = []
            for seed in range(seeds):
                cases = question.draw(f"verify {seed}".encode(), "verify", seed)
                published = observe_source(question, [*setup, answer.source], encode_inputs(cases))
                verdicts.append(question.judge(cases, published))
            yield Outcome(
                question.id,
                answer,
                tuple(verdict.points for verdict in verdicts),
                tuple(verdict.misconception for verdict in verdicts),
            )


def _cells(question: Question) -> tuple[list[str], str]:
    """The set-up cells of the question's notebook, and its answer cell without the solution."""
    for assignment in notebooks.assignments():
        nb = notebooks.read(notebooks.master_path(assignment))
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == question.id:
                return _setup(nb), clear_solution(cell.source)
    raise notebooks.NotebookError(f"no notebook asks {question.id}: run `make notebooks`")


def _setup(nb: NotebookNode) -> list[str]:
    return [cell.source for cell in nb.cells if "setup" in cell.metadata.get("tags", [])]


def clear_solution(source: str) -> str:
    """An answer cell's source with the marked solutions replaced by the stub, as nbgrader releases it."""
    kept: list[str] = []
    inside = False
    for line in source.splitlines():
        if "### BEGIN SOLUTION" in line:
            kept.append(line[: len(line) - len(line.lstrip())] + STUB)
            inside = True
        elif "### END SOLUTION" in line:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def observe_source(question: Question, sources: list[str], cases: list[Any], seconds: float = SECONDS) -> list[Any]:
    """Run sources in a process of their own and observe the question's functions. Empty when nothing came back."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_observe, args=(sender, question.id, sources, cases), daemon=True)
    process.start()
    sender.close()
    try:
        # Bytes, read as JSON: nothing that a student's process sends is ever unpickled.
        return [json.loads(receiver.recv_bytes())] if receiver.poll(seconds) else []
    except (EOFError, ValueError):
        return []
    finally:
        process.kill()
        process.join()
        receiver.close()


def _observe(sender: Connection, question_id: str, sources: list[str], cases: list[Any]) -> None:
    import contextlib
    import os

    import torch

    torch.set_num_threads(1)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        for source in sources:
            exec(compile(source, question_id, "exec"), namespace)
        functions = tuple(namespace[name] for name in QUESTIONS[question_id].public.functions)
        published = {"question": question_id, "cases": observe_cases(question_id, functions, cases)}
    sender.send_bytes(json.dumps(published).encode())


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a Markdown table: what each answer declares, and whether it got it."""
    lines = ["| question | answer | points | misconception | as declared |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        got = " / ".join(f"{points:g}" for points in sorted(set(outcome.points)))
        found = " / ".join(sorted({str(misconception or "–") for misconception in outcome.misconceptions}))
        verdict = "yes" if outcome.holds else f"no: declares {outcome.answer.points:g}, {outcome.answer.misconception}"
        lines.append(f"| {outcome.question} | {outcome.answer.name} | {got} | {found} | {verdict} |")
    return "\n".join(lines)


_BEGIN, _END = "<!-- verify: begin -->", "<!-- verify: end -->"


def update_readme(outcomes: Sequence[Outcome]) -> None:
    """Put the table between its marks in autograders/README.md."""
    path = Path(__file__).parent / "README.md"
    head, rest = path.read_text("utf-8").split(_BEGIN)
    write_text_atomically(path, f"{head}{_BEGIN}\n{table(outcomes)}\n{_END}{rest.split(_END)[1]}")
