"""A row of the gradebook: one student and one assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..grading.journal import Record
from ..grading.states import State
from ..nbgrader.scores import SubmissionScores
from ..reasons import Reason

COLUMNS = (
    *("student", "assignment", "state", "score", "max_score", "auto_score"),
    *("by_hand_open", "attempts", "reason", "release"),
)
"""What of a row a table has, in order."""


def points_text(points: float) -> str:
    """Points as tables and LMSs have them: two decimals at most, and every digit before them."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class ScoreRow:
    """One student and one assignment: always there, always with a state and, where it is not plain, its reason."""

    student: str
    assignment: str
    state: State
    score: float | None
    max_score: float | None
    auto_score: float | None
    by_hand_open: int
    """How many questions still wait for a person."""
    attempts: int
    reasons: tuple[Reason, ...]
    release: str = ""
    """Which release the submission says it was made from."""

    @property
    def reason(self) -> str:
        """The reasons in words."""
        return "; ".join(map(str, self.reasons))


@dataclass(frozen=True)
class Entry:
    """A row and what it was made from: read once, for every table and page."""

    row: ScoreRow
    record: Record | None
    scores: SubmissionScores | None
    maxima: Mapping[str, float]
    """What each question of the assignment is worth."""
