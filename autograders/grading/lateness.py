"""How late a submission is and what that costs, from its times alone: whatever shows or enters a penalty asks here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..intake.times import Due
from ..nbgrader.scores import SubmissionScores
from ..reasons import Kind, Reason

MARKED_SECONDS = 1.0
"""How late a submission counts that is marked as late without a time."""
_NO_TIME = timedelta(0)


@dataclass(frozen=True)
class Lateness:
    """How many seconds late a submission is, the points that this costs, and the reason to tell; None in time."""

    seconds: float = 0.0
    points: float = 0.0
    reason: Reason | None = None


def lateness(
    handed_in: datetime | None, due: datetime | None, extension: timedelta | None, mark: str, cost: float
) -> Lateness:
    """How late a submission is.

    Args: when it was handed in and was due (UTC where they have no zone; None where that is not known), the student's
    extension, who marks it as late ("" when nobody does), and the points that being late costs.

    A mark makes it late where no time does, unless the student has an extension: whoever marks does not know of that.
    """
    if due is None:
        return Lateness(reason=_marked(mark, 0.0) if mark else None)
    due, handed_in = _utc(due), None if handed_in is None else _utc(handed_in)
    if mark and (handed_in is None or handed_in <= due):
        handed_in = due + timedelta(seconds=MARKED_SECONDS)
    # An extension that ends before the due date takes nobody's time.
    ends = due + max(extension or _NO_TIME, _NO_TIME)
    if handed_in is None or handed_in <= ends:
        return Lateness()
    seconds = (handed_in - ends).total_seconds()
    is_marked = mark and seconds <= MARKED_SECONDS
    return Lateness(seconds, cost, _marked(mark, cost) if is_marked else _late(seconds, cost))


def cost_of(policy: str | None, score: float, entered: float) -> float:
    """The points that being late costs: by the policy that assignments.csv names.

    Without one, what nbgrader's plugin for late penalties `entered` in the gradebook: only the plugin knows its rule.
    """
    return {"zero": score, "none": 0.0}.get(policy or "", min(entered, score))


def lateness_of(submission: SubmissionScores, due: Due | None, mark: str) -> Lateness:
    """How late a submission in the gradebook is now, whatever the due date was when it was graded.

    Args: the submission, the assignment's line in assignments.csv, and who marks the submission as late.
    """
    handed_in = time_without_mark(submission.timestamp, submission.due, mark)
    cost = cost_of(due.penalty if due is not None else None, submission.score, submission.late_submission_penalty)
    return lateness(handed_in, _in_force(submission, due), submission.extension, mark, cost)


def time_without_mark(entered: datetime | None, due: datetime | None, mark: str) -> datetime | None:
    """The time of handing in that was entered with this due date; None where only a mark was behind it."""
    only_marked = mark and due is not None and entered == due + timedelta(seconds=MARKED_SECONDS)
    return None if only_marked else entered


def extension_of(submission: SubmissionScores, due: Due | None) -> Reason | None:
    """What to say of a student's extension; None without one."""
    date, extension = _in_force(submission, due), submission.extension or _NO_TIME
    if date is None or extension <= _NO_TIME:
        return None
    return Reason(Kind.NOTE, f"the due date was extended to {date + extension:%Y-%m-%d %H:%M} UTC")


def _in_force(submission: SubmissionScores, due: Due | None) -> datetime | None:
    """The due date of assignments.csv, else the one in nbgrader's gradebook."""
    return due.date if due is not None else submission.due


def _utc(time: datetime) -> datetime:
    """The same time without a zone, as nbgrader keeps times."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _marked(mark: str, cost: float) -> Reason:
    return Reason(Kind.MARKED_LATE, f"{mark} marks it as handed in late{_taken_off(cost)}")


def _late(seconds: float, cost: float) -> Reason:
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    units = " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (rest // 60, "min")) if count)
    after = units or "less than a minute"
    return Reason(Kind.LATE, f"handed in {after} after the due date{_taken_off(cost)}", after)


def _taken_off(cost: float) -> str:
    return f", {cost:g} points taken off" if cost else ""
