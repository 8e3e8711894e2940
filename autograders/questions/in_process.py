"""Runs an answer of the bank in this process, for what a process of its own would hide: its types and computing time.

For the bank's answers alone, which we wrote; what students wrote runs in `answer_process` or the sandbox.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lecture_lib.notebook.process_state import reset_process

from ..probes import observe_question
from .bank import Answer
from .question import Question
from .verify import Sets, cells


def functions_of(question: Question, answer: Answer) -> dict[str, Callable[..., Any]]:
    """The functions that an answer defines, after the set-up cells of its notebook. Their file is called `answer`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    reset_process()
    with contextlib.redirect_stdout(io.StringIO()):
        for source in cells(question)[0]:
            exec(compile(source, question.id, "exec"), namespace)
        exec(compile(answer.source, "answer", "exec"), namespace)
    return {name: namespace[name] for name in question.public.functions}


@dataclass(frozen=True)
class Cost:
    """Seconds of computing time of one graded answer."""

    question: str
    answer: str
    drawing: float
    """Of the first set of hidden inputs; a class shares eight sets."""
    observing: float
    judging: float

    @property
    def grading(self) -> float:
        """What every submission costs."""
        return self.observing + self.judging


def observed(question: Question, functions: Mapping[str, Callable[..., Any]], inputs: str) -> Any:
    """What a grading observes of these functions for these encoded inputs.

    Through JSON, as in a real grading: encoding is a part of what every submission costs.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        return json.loads(json.dumps(observe_question(question.id, tuple(functions.values()), json.loads(inputs))))


def cost_of(question: Question, answer: Answer, index: int = 0) -> Cost:
    """The computing time of grading one answer on one set of hidden inputs, as in a notebook's kernel."""
    functions = functions_of(question, answer)
    clock = [time.process_time()]
    cases, inputs = question.draw(Sets.secret, Sets.version, index), question.inputs(Sets.secret, Sets.version, index)
    clock.append(time.process_time())
    published = observed(question, functions, inputs)
    clock.append(time.process_time())
    question.judge(cases, [published])
    clock.append(time.process_time())
    drawing, observing, judging = (after - before for before, after in itertools.pairwise(clock))
    return Cost(question.id, answer.name, drawing, observing, judging)


def slowest(question: Question) -> Cost:
    """The right answer that costs the most. The first one is run twice: it pays for what a process does once."""
    right = [answer for answer in question.answers() if answer.points == question.points]
    first = cost_of(question, right[0])
    costs = [cost_of(question, answer) for answer in right]
    most = max(costs, key=lambda cost: cost.grading)
    return Cost(most.question, most.answer, first.drawing, most.observing, most.judging)
