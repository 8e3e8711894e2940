"""The states of a submission. Every student has one, with its reason: never a bare zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GRADED, PARTIAL, CRASHED, OUT_OF_TIME, UNREADABLE, MISSING, TAMPERED, LATE, FAILED = (
    "graded",
    "partial",
    "crashed",
    "out of time",
    "unreadable",
    "missing",
    "tampered",
    "late",
    "failed",
)
NOT_GRADED = "not graded"

MEANINGS = {
    GRADED: "every question was judged",
    LATE: "every question was judged; it came after the due date",
    PARTIAL: "some question could not be judged and has no points; the others count",
    OUT_OF_TIME: "some question did not end within its limit and has no points; the others count",
    CRASHED: "the kernel died while it ran; what could be judged counts",
    TAMPERED: "an observation was forged; that question has no points",
    UNREADABLE: "no notebook that can be graded; there is no score",
    FAILED: "grading itself failed; there is no score, a person has to look",
    NOT_GRADED: "handed in and not graded yet",
    MISSING: "nothing was handed in",
}
SET_ASIDE = (UNREADABLE, FAILED)
"""States without a score: a person has to look."""
INCIDENTS = (PARTIAL, OUT_OF_TIME, CRASHED, TAMPERED)
"""States with a score in which some question met an incident."""


def state_of(verdicts: Mapping[str, Mapping[str, Any]], ended: Sequence[Mapping[str, Any]] = ()) -> tuple[str, str]:
    """The state and reason of a notebook that ran, from what its questions met and from what ended its kernels."""
    met = {question: str(verdict["incident"]) for question, verdict in verdicts.items() if verdict["incident"]}
    stops = {(one["question"], one["reason"]): f"{one['cell']}: {one['reason']}" for one in ended}
    told = [f"{question}: {what}" for question, what in met.items() if (question, what) not in stops]
    reason = "; ".join([*stops.values(), *told])
    whats = [*met.values(), *(what for _, what in stops)]
    if any(verdicts[question]["misconception"] == "forged" for question in met):
        return TAMPERED, reason
    if any(what.startswith("the kernel ") for what in whats):
        return CRASHED, reason
    if any(what.startswith("out of time") for what in whats):
        return OUT_OF_TIME, reason
    return (PARTIAL if met else GRADED), reason


def lateness(seconds: float, penalty: float | None) -> str:
    """How late a submission is, in words; empty when it is not."""
    if seconds <= 0:
        return ""
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    after = " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (rest // 60, "min")) if count)
    taken = f", {penalty:g} points taken off" if penalty else ""
    return f"handed in {after or 'less than a minute'} after the due date{taken}"
