"""One record for each submission of each assignment version: what happened to it, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .course import Course, CourseError
from .files import write_text_atomically

GRADED, UNREADABLE, CRASHED, OUT_OF_TIME, TAMPERED, FAILED, MISSING, LATE = (
    "graded",
    "unreadable",
    "crashed",
    "out of time",
    "tampered",
    "failed",
    "missing",
    "late",
)
SET_ASIDE = (UNREADABLE, FAILED)
"""States without a score: a person has to look."""


@dataclass
class Record:
    """What is known of one submission. `questions` holds verdicts, `observations` what they were judged from."""

    student: str
    assignment: str
    digest: str | None
    version: str
    state: str
    reason: str = ""
    submitted_version: str | None = None
    notes: list[str] = field(default_factory=list)
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    observations: dict[str, list[Any]] = field(default_factory=dict)
    seconds: float = 0.0
    earlier: list[dict[str, Any]] = field(default_factory=list)
    schema: int = 1

    def is_of(self, digest: str | None, version: str) -> bool:
        """Whether this record is of exactly that file, graded with that assignment version."""
        return self.digest == digest and self.version == version and self.state != FAILED


def read_record(course: Course, assignment: str, student: str) -> Record | None:
    """The record of a submission, or None when it was never looked at."""
    path = course.journal(assignment, student)
    if not path.exists():
        return None
    try:
        return Record(**json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise CourseError(
            f"{path} is damaged ({type(error).__name__}). Put it back from a copy, or remove it: the submission is "
            "then graded again, and earlier attempts are forgotten."
        ) from None


def write_record(course: Course, record: Record) -> None:
    """Write a record; an earlier one of another file or version is kept in short inside it."""
    before = read_record(course, record.assignment, record.student)
    if before is not None:
        record.earlier = before.earlier
        if not (before.digest == record.digest and before.version == record.version):
            points = {question: verdict["points"] for question, verdict in before.questions.items()}
            record.earlier = [
                *before.earlier,
                {"digest": before.digest, "version": before.version, "state": before.state, "points": points},
            ]
    text = json.dumps(asdict(record), ensure_ascii=False, indent=1)
    write_text_atomically(course.journal(record.assignment, record.student), text + "\n")
