"""Which cells of a notebook run, and who is to blame when its kernel hangs or dies: one question, never the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..reasons import Kind, Reason

RELEASED, ANSWER, TEST, OWN = "released", "answer", "test", "own"
RUN, STAND_IN, SKIP = "run", "stand in", "skip"


@dataclass(frozen=True)
class Step:
    """One code cell: where it is, what it is, and the question that it belongs to."""

    index: int
    kind: str
    question: str | None = None

    @property
    def name(self) -> str:
        """What people call this cell."""
        names = {ANSWER: f"the answer {self.question}", TEST: f"the hidden cases of {self.question}"}
        return names.get(self.kind, f"the student's own cell at position {self.index + 1}")


class NobodyToBlame(RuntimeError):  # noqa: N818 - a state of a run
    """A kernel ended before anything of the student's had run: the fault is the machine's or the course's."""


class Plan:
    """The runs of one notebook. After an incident another kernel runs what is left, without the cell that caused it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self.incidents: dict[int, Reason] = {}
        """What ended a kernel, with the question that it costs, if any; by the index of the cell that is to blame."""
        self.observed: set[str] = set()
        self._failed: set[str] = set()
        self._dropped: set[int] = set()
        self._suspects: dict[int, str] = {}
        self._furthest = -1
        self._alone: str | None = None
        self._died: set[str] = set()

    def action(self, step: Step) -> str:
        """Whether a cell runs, is skipped, or has the empty answer standing in for it."""
        is_elsewhere = self._alone is not None and step.question not in (None, self._alone)
        if step.kind == TEST:
            return SKIP if is_elsewhere or step.question in self.observed | self._failed else RUN
        if step.kind == ANSWER:
            return STAND_IN if is_elsewhere or step.index in self._dropped else RUN
        return SKIP if step.index in self._dropped else RUN

    def todo(self) -> list[Step]:
        """The cells that the next kernel goes through, in order; an empty list when no question is left to observe."""
        waiting = [
            step.index
            for step in self._steps
            if self.action(step) != SKIP
            and (step.kind == TEST or (self._alone is None and step.index > self._furthest))
        ]
        return [step for step in self._steps if step.index <= max(waiting)] if waiting else []

    def ran(self, step: Step, observed: bool) -> None:
        """Note that a cell has ended by itself, and whether an observation was published."""
        self._furthest = max(self._furthest, step.index)
        if step.kind == TEST and step.question is not None:
            (self.observed if observed else self._failed).add(step.question)

    def suspect(self, step: Step, symptom: str) -> None:
        """Note that a cell left something running; it goes first if the kernel ends later."""
        source = self._source(step)
        if source is not None:
            self._suspects.setdefault(source.index, symptom)

    def is_suspect(self, step: Step) -> bool:
        """Whether a cell, or the answer that a test cell runs, has left something running."""
        source = self._source(step)
        return source is not None and source.index in self._suspects

    def drop(self, step: Step, reason: Reason) -> None:
        """Leave a cell out of the next runs because of what it left running; what was observed stands."""
        source = self._source(step)
        if source is not None:
            self._drop(source, reason)

    def note(self, step: Step, reason: Reason) -> None:
        """Note what a cell did that ended no kernel and costs nothing by itself."""
        culprit = self._culprit(step)
        if culprit is not None:
            self._note(self._source(culprit) or culprit, reason)

    def blame(self, step: Step, reason: Reason, *, died: bool = False) -> None:
        """Decide what the next run leaves out after `step` hung or ended the kernel. `died`: nobody stopped it.

        Cells that left something running go first, also for what happens later. Then a test cell is left out, its
        answer kept as long as nothing else happens; any other cell of the student's is left out itself. Raises
        NobodyToBlame when nothing of the student's has run.
        """
        culprit = self._culprit(step)
        if culprit is None:
            raise NobodyToBlame(reason.text)
        source = self._source(culprit)
        suspects = {
            index: symptom for index, symptom in self._suspects.items() if source is None or index != source.index
        }
        self._suspects.clear()
        if died and culprit.question is not None:
            self._died.add(culprit.question)
        if suspects and (source is None or source.index not in suspects):
            for index, symptom in suspects.items():
                suspect = next(step for step in self._steps if step.index == index)
                self._drop(suspect, replace(reason, text=f"{reason.text} ({symptom})"))
            return
        self._furthest = max(self._furthest, step.index)
        if culprit.kind == TEST and culprit.question not in self.observed and source is not None:
            self._note(culprit, reason)
            self._failed.add(str(culprit.question))
            self._suspects[source.index] = f"after {culprit.name} had ended a kernel"
        else:
            self._drop(source or culprit, reason)

    def give_up(self, reason: Reason) -> None:
        """Leave what has not been observed: the notebook's time is used up."""
        for step in self._steps:
            if step.kind == TEST and self.action(step) == RUN:
                self._note(step, reason)
                self._failed.add(str(step.question))
        self._furthest = self._steps[-1].index

    def appeals(self) -> Iterator[str]:
        """Questions to run once more, each alone: only its own answer, the others empty; then without own cells too.

        What one answer does late (a timer, a thread) can hit another's cells, and who was running was blamed. Only
        where more than one question was: a single one was blamed by itself. What one of the student's own cells does
        late hits whichever question runs then, also one that runs alone.
        """
        lost = sorted(self._failed & {incident.question for incident in self.incidents.values() if incident.question})
        has_other_suspect = len(lost) > 1 or any(incident.question is None for incident in self.incidents.values())
        disputed = [question for question in lost if len(lost) > 1 or question in self._died]
        for question in disputed if has_other_suspect else ():
            with self._run_alone(question, set()):
                yield question
        own = {step.index for step in self._steps if step.kind == OWN} - self._dropped
        for question in [question for question in lost if question in self._failed & self._died] if own else ():
            with self._run_alone(question, own):
                yield question
            if question in self.observed:
                text = f"the kernel died later, in {question}, which ran without this cell"
                for step in [step for step in self._steps if step.index in own]:
                    self._note(step, Reason(Kind.KERNEL_DIED, text))

    @contextlib.contextmanager
    def _run_alone(self, question: str, without: set[int]) -> Iterator[None]:
        """A run for one question without some of the student's own cells. What it observes counts."""
        self._alone = question
        before = self._dropped, set(self._failed)
        answers = {step.index for step in self._steps if step.kind == ANSWER}
        self._dropped, self._failed = (self._dropped - answers) | without, self._failed - {question}
        yield
        self._dropped, self._failed = before[0], before[1] - self.observed
        self._alone = None
        if question in self.observed:
            self.incidents = {at: incident for at, incident in self.incidents.items() if incident.question != question}

    def _culprit(self, step: Step) -> Step | None:
        """The cell itself where it is the student's; else the student's nearest one before it that ran."""
        before = [earlier for earlier in self._steps if earlier.index <= step.index and earlier.kind != RELEASED]
        return next((earlier for earlier in reversed(before) if self.action(earlier) == RUN), None)

    def _source(self, step: Step) -> Step | None:
        """The cell whose code ran: a test cell runs its answer's."""
        if step.kind == OWN:
            return step
        answers = [answer for answer in self._steps if answer.kind == ANSWER and answer.question == step.question]
        return answers[0] if answers else None

    def _drop(self, step: Step, reason: Reason) -> None:
        self._dropped.add(step.index)
        self._suspects.pop(step.index, None)
        self._note(step, reason)
        if step.kind in (ANSWER, TEST) and step.question is not None and step.question not in self.observed:
            self._failed.add(step.question)

    def _note(self, step: Step, reason: Reason) -> None:
        # The first incident of a question is its reason; later ones may only follow from it.
        if step.question is not None and step.question in {incident.question for incident in self.incidents.values()}:
            return
        self.incidents.setdefault(step.index, replace(reason, cell=step.name, question=step.question))
