"""What an observation is worth and what to say about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..reasons import Reason, kind_of

UNANSWERED = "unanswered"
"""The misconception of an answer cell that is still as released."""


@dataclass(frozen=True)
class Part:
    """One graded part of a question: its points, the most it can have, and what happened in words."""

    name: str
    points: float
    maximum: float
    message: str


@dataclass(frozen=True)
class Verdict:
    """A question's points and their explanation. `misconception` is an id of the question's table, or None."""

    question: str
    parts: tuple[Part, ...]
    misconception: str | None = None
    meaning: str = ""
    """What the misconception is, in words for the student."""
    look_at: str = ""
    incident: Reason | None = None
    """What was wrong with the observation itself (missing, malformed, published twice); None when nothing was."""
    left: tuple[str, ...] = ()
    """What the answer's code left changed in its process. It was put back and costs nothing."""

    def __post_init__(self) -> None:
        """Refuse points that nbgrader would turn into full marks or choke on."""
        for part in self.parts:
            if not (math.isfinite(part.points) and 0 <= part.points <= part.maximum):
                raise ValueError(f"{self.question}: part {part.name} has {part.points} of {part.maximum} points")

    @property
    def points(self) -> float:
        """The sum of the parts' points."""
        return float(sum(part.points for part in self.parts))

    @property
    def maximum(self) -> float:
        """The most that the parts can have together."""
        return float(sum(part.maximum for part in self.parts))

    def as_record(self) -> dict[str, Any]:
        """Plain data for the journal: the incident's sentence, its kind and its detail."""
        reason = self.incident
        incident = {
            "incident": reason and reason.text,
            "incident_kind": reason and reason.kind,
            "incident_detail": reason and reason.detail,
        }
        return {**asdict(self), **incident, "points": self.points, "maximum": self.maximum}


def incident_of(record: Mapping[str, Any]) -> Reason | None:
    """The incident of a verdict's record; of another checkout's record, whose kind is unknown, the sentence alone."""
    if record["incident"] is None:
        return None
    kind, detail = kind_of(record.get("incident_kind")), record.get("incident_detail")
    return Reason(kind, str(record["incident"]), str(detail or ""))


def zero(
    question: str, maxima: Iterable[tuple[str, float]], incident: Reason, misconception: str | None = None
) -> Verdict:
    """A verdict without a point, for an observation that cannot be judged. Grading fails closed."""
    parts = tuple(Part(name, 0.0, maximum, incident.text) for name, maximum in maxima)
    return Verdict(question, parts, misconception=misconception, incident=incident)
