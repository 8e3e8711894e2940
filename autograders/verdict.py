"""What an observation is worth and what to say about it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


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
    incident: str | None = None
    """What was wrong with the observation itself (missing, malformed, published twice); None when nothing was."""

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
        """Plain data for the journal."""
        return {**asdict(self), "points": self.points, "maximum": self.maximum}


def zero(
    question: str, maxima: Iterable[tuple[str, float]], incident: str, misconception: str | None = None
) -> Verdict:
    """A verdict without a point, for an observation that cannot be judged. Grading fails closed."""
    parts = tuple(Part(name, 0.0, maximum, incident) for name, maximum in maxima)
    return Verdict(question, parts, misconception=misconception, incident=incident)
