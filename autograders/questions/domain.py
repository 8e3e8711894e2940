"""Tries an answer on cases from anywhere in a question's declared domain, against the reference."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..reasons import Reason
from .answer_process import observe_sets
from .cases import Case
from .description import Description
from .question import Question, encode_inputs

EXAMPLES = 60
_AT_A_TIME = 6
"""Cases that are observed together: an observation has an upper limit on its values."""


class AnswerStoppedError(RuntimeError):
    """An answer's process ended, or ran out of time, on the cases of a domain."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)


def sample(description: Description, count: int = EXAMPLES, seed: int = 0) -> list[Case]:
    """So many cases of the domain; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    return [description.domain(rng) for _ in range(count)]


def first_difference(
    question: Question, sources: Sequence[str], cases: Sequence[Case], seconds: int = 30
) -> Case | None:
    """The first case on which a program does not agree with the reference in every field that is graded.

    Each case is judged by itself. Raises AnswerStoppedError when the program's process ends before one is found.
    """
    groups = [cases[start : start + _AT_A_TIME] for start in range(0, len(cases), _AT_A_TIME)]
    with contextlib.closing(observe_sets(question, sources, list(map(encode_inputs, groups)), seconds)) as observations:
        for group, observed in zip(groups, observations, strict=True):
            if observed.incident is not None:
                raise AnswerStoppedError(observed.incident)
            for case, observation in zip(group, question.read(observed.published[0], len(group)), strict=True):
                verdict = _in_full(question.description, case).judge([case], [observation])
                if verdict.points < verdict.maximum:
                    return case
    return None


def _in_full(description: Description, case: Case) -> Description:
    """With every part asked of this case, in the fields that the reference has for it."""
    # What a real grading forgives, or asks only of some kinds of cases, would hide a wrong value here.
    reference = description.reference(case)
    parts = [
        replace(
            part,
            on=(),
            unless=(),
            forgives=(),
            needs="",
            fields=tuple(path for path in part.fields if path in reference),
        )
        for part in description.parts
    ]
    return replace(description, parts=tuple(part for part in parts if part.fields))
