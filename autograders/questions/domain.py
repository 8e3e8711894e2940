"""Tries an answer on cases from anywhere in a question's declared domain, against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..reasons import Reason
from .answer_process import observe_sets
from .description import Case, Description
from .question import Question, encode_inputs

EXAMPLES = 60


class AnswerStoppedError(RuntimeError):
    """An answer's process ended, or ran out of time, on the cases of a domain."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)


def sample(description: Description, count: int = EXAMPLES, seed: int = 0) -> list[Case]:
    """So many cases of the domain; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    return [description.domain(rng) for _ in range(count)]


def differing(question: Question, sources: Sequence[str], cases: Sequence[Case], seconds: int = 30) -> list[Case]:
    """The cases on which a program does not agree with the reference in every field that is graded.

    Each case is judged by itself. Raises AnswerStoppedError when the program's process does not come to its end.
    """
    description = question.hidden
    assert isinstance(description, Description)
    anywhere = replace(
        description, parts=tuple(replace(part, on=(), unless=(), needs="") for part in description.parts)
    )
    [observed] = observe_sets(question, sources, [encode_inputs(cases)], seconds)
    if observed.incident is not None:
        raise AnswerStoppedError(observed.incident)
    observations = question.read(observed.published[0], len(cases))
    verdicts = [anywhere.judge([case], [observation]) for case, observation in zip(cases, observations, strict=True)]
    return [case for case, verdict in zip(cases, verdicts, strict=True) if verdict.points < verdict.maximum]
