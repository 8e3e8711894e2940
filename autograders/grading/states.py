"""The states of a submission. Every student has one, with its reasons: never a bare zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from ..questions.verdict import incident_of
from ..reasons import Kind, Reason


class State(StrEnum):
    """The result for a submission, in the word that tables and pages show."""

    GRADED = "graded"
    LATE = "late"
    PARTIAL = "partial"
    OUT_OF_TIME = "out of time"
    CRASHED = "crashed"
    TAMPERED = "tampered"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    TO_CONFIRM = "to confirm"
    NOT_PLACED = "not placed"
    NOT_GRADED = "not graded"
    MISSING = "missing"


MEANINGS: Mapping[str, str] = {
    State.GRADED: "every question was judged",
    State.LATE: "every question was judged; it came after the due date",
    State.PARTIAL: "some question could not be judged and has no points; the others count",
    State.OUT_OF_TIME: "some question did not end within its limit and has no points; the others count",
    State.CRASHED: "the kernel died while it ran, or was told to end; what could be judged counts",
    State.TAMPERED: "an observation was forged; that question has no points",
    State.UNREADABLE: "no notebook that can be graded; there is no score",
    State.FAILED: "grading itself failed; there is no score, a person has to look",
    State.TO_CONFIRM: "it is not certain which file is the student's; there is no score until a person has decided",
    State.NOT_PLACED: "a file was handed in, but its student or its assignment is unknown",
    State.NOT_GRADED: "handed in and not graded yet",
    State.MISSING: "nothing was handed in",
}
SET_ASIDE = (State.UNREADABLE, State.FAILED, State.TO_CONFIRM)
"""States without a score: a person has to look."""
INCIDENTS = (State.PARTIAL, State.OUT_OF_TIME, State.CRASHED, State.TAMPERED)
"""States with a score in which some question met an incident."""
_CRASHES = {Kind.KERNEL_DIED, Kind.KERNEL_STOPPED, Kind.KERNEL_TOLD_TO_END}


def state_of(
    verdicts: Mapping[str, Mapping[str, Any]], ended: Sequence[Mapping[str, Any]] = ()
) -> tuple[State, tuple[Reason, ...]]:
    """The state and reasons of a notebook that ran, from what its questions met and from what ended its kernels."""
    met = {
        question: replace(incident, question=question)
        for question, verdict in verdicts.items()
        if (incident := incident_of(verdict)) is not None
    }
    # A question whose kernel was ended meets what ended it: said once, with the cell.
    stops = {replace(stop, cell=""): stop for stop in map(Reason.from_record, ended)}
    reasons = (*stops.values(), *(incident for incident in met.values() if incident not in stops))
    kinds = {reason.kind for reason in reasons}
    # From the gravest to the mildest: a submission has one state, and its reasons say the rest.
    if any(verdicts[question]["misconception"] == "forged" for question in met):
        return State.TAMPERED, reasons
    if kinds & _CRASHES:
        return State.CRASHED, reasons
    if Kind.OUT_OF_TIME in kinds:
        return State.OUT_OF_TIME, reasons
    return (State.PARTIAL if met else State.GRADED), reasons
