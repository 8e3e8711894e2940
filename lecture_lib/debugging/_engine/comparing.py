"""What the comparisons share: when to ask, and when to believe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..faults.finding import Finding
from ..program import Program
from .assumptions import NotAskedError
from .changes import Change
from .evidence import Evidence
from .trials import EFFECT, Trials


def trials(evidence: Evidence) -> Trials:
    """The evidence's trials, made once; not asked of a model whose outputs the ladder cannot measure."""
    if evidence.tensors_out:
        raise NotAskedError(evidence.tensors_out)
    if evidence.trials is None:
        evidence.trials = Trials(evidence)
    found: Trials = evidence.trials
    return found


def confirmed(
    evidence: Evidence, fault: str, sign: str, *changes: Change, effect: float = EFFECT, **options: Any
) -> Finding | None:
    """A finding if one of the changes brings a real gain; one seed decides which are tried on all."""
    for change in changes:
        if trials(evidence).worth(change, **options):
            gain = trials(evidence).gain(change, **options)
            if gain.real and gain.share > effect:
                return Finding(fault, f"{sign}; changed: {gain}", {"gain": gain.share, "spread": gain.spread}, False)
    return None


def confirmed_early(evidence: Evidence, fault: str, sign: str, *changes: Change) -> Finding | None:
    """The same a quarter of the run in, where a bad start shows most; then at its end."""
    found = None
    if room(evidence, early=True):
        found = confirmed(evidence, fault, sign, *changes, epochs=trials(evidence).early)
    if found is None and room(evidence):
        found = confirmed(evidence, fault, sign, *changes)
    return found


def room(evidence: Evidence, early: bool = False) -> bool:
    """Whether training examples are learnt so badly, at the end or early, that a change can bring something."""
    if evidence.train is None or evidence.program.loss_fn is None:
        return False
    epochs = trials(evidence).early if early else 0
    return trials(evidence).plain(0, False, epochs) > 0.1 * trials(evidence).constant


def both(one: Change, other: Change) -> Change:
    """Two changes at once."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        with one(program), other(program):
            yield

    return change


@contextmanager
def nothing(program: Program) -> Iterator[None]:
    """No change but the number of epochs."""
    yield
