"""One record for each submission of each assignment version: what happened to it, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, fields
from typing import Any

from ..course import Course, CourseError
from ..files import write_bytes_atomically
from ..reasons import Kind, Reason
from .states import State

SCHEMA = 3
_CHECKSUM = b'"checksum": '
"""How the line begins that ends what is read without the observations; an older record ends with it."""


class DamagedRecord(CourseError):  # noqa: N818 - a state of a file
    """A journal record that cannot be believed; the message has the remedy."""


@dataclass
class Record:
    """What is known of one submission. `questions` holds verdicts, `observations` what they were judged from."""

    student: str
    assignment: str
    digest: str | None
    version: str
    state: State
    reasons: tuple[Reason, ...] = ()
    submitted_version: str | None = None
    submitted_release: str | None = None
    """What the submission's stamp says of the release that it was made from; `published` knows which there are."""
    notes: list[str] = field(default_factory=list)
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    observations: dict[str, list[Any]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """Digests of the hidden inputs that each question got, so that a regrade knows whether they are still the same."""
    pool: int | None = None
    """Which set of hidden inputs the submission got."""
    answers: dict[str, str] = field(default_factory=dict)
    """Digests of the answers, by solution cell: a person's score was given to exactly that answer."""
    cell_seconds: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    regrades: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def reason(self) -> str:
        """The reasons in words."""
        return "; ".join(map(str, self.reasons))

    def is_of(self, digest: str | None, version: str) -> bool:
        """Whether this record is of exactly that file, graded with that assignment version."""
        # Where grading itself failed, the next run tries again.
        return self.digest == digest and self.version == version and self.state != State.FAILED


def read_record(course: Course, assignment: str, student: str, *, observations: bool = True) -> Record | None:
    """The record of a submission, or None when it was never looked at. Raises DamagedRecord.

    Without `observations` their line, nine tenths of a file, is neither read nor checked, except for its length.
    """
    path = course.journal(assignment, student)
    head, rest = bytearray(), b""
    try:
        with path.open("rb") as file:
            for line in file:
                if line.startswith(_CHECKSUM):
                    break
                head += line
            else:
                line = b""
            # The oldest records are one line.
            content = json.loads(bytes(head) + line.rstrip(b",\n") + b"}" if line else bytes(head))
            checksum, schema = content.pop("checksum"), content["schema"]
            if schema < SCHEMA:
                expected = _checksum(content)
            else:
                expected = hashlib.sha256(head).hexdigest()
                size, digest = content.pop("observations_bytes"), content.pop("observations_digest")
                if os.fstat(file.fileno()).st_size != len(head) + len(line) + size:
                    raise _damaged(course, assignment, student, "its length is not the one that it states")
                if observations:
                    rest = file.read()
                    if hashlib.sha256(rest).hexdigest() != digest:
                        raise _damaged(course, assignment, student, "its observations' checksum is not theirs")
                    content["observations"] = json.loads(b"{" + rest)["observations"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(course, assignment, student, f"{type(error).__name__}: {error}") from None
    if checksum != expected:
        raise _damaged(course, assignment, student, "its checksum is not that of its content")
    try:
        record = Record(**{name: value for name, value in content.items() if name != "reason"})
        # An older checkout wrote the sentence alone.
        reasons = content.get("reasons", [{"reason": content["reason"]}] if content["reason"] else [])
        record.state, record.reasons = State(record.state), tuple(map(Reason.from_record, reasons))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(course, assignment, student, f"{type(error).__name__}: {error}") from None
    return record


def look_up(course: Course, assignment: str, student: str) -> Record | None:
    """What tables and pages show of a record, without its observations: not to be written back.

    A damaged record is a failed submission: it must not stop everybody else.
    """
    try:
        return read_record(course, assignment, student, observations=False)
    except DamagedRecord as error:
        return Record(student, assignment, None, "", State.FAILED, (Reason(Kind.OTHER, str(error)),))


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
    record.schema = SCHEMA
    content = {attribute.name: getattr(record, attribute.name) for attribute in fields(record)}
    content |= {"reason": record.reason, "reasons": [reason.as_record() for reason in record.reasons]}
    # The observations come last, on a line of their own: whoever needs the verdicts alone stops before them.
    rest = f'"observations": {json.dumps(content.pop("observations"), ensure_ascii=False)}\n}}\n'
    rest_bytes = rest.encode("utf-8", "backslashreplace")
    content["observations_bytes"] = len(rest_bytes)
    content["observations_digest"] = hashlib.sha256(rest_bytes).hexdigest()
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)},\n" for name, value in content.items()]
    head = "".join(["{\n", *lines]).encode("utf-8", "backslashreplace")
    checksum = _CHECKSUM + f'"{hashlib.sha256(head).hexdigest()}",\n'.encode()
    write_bytes_atomically(course.journal(record.assignment, record.student), head + checksum + rest_bytes)


def _checksum(content: dict[str, Any]) -> str:
    """The checksum in records of schema 2 and before, which summed the content in another form."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(course: Course, assignment: str, student: str, problem: str) -> DamagedRecord:
    path = course.journal(assignment, student)
    return DamagedRecord(
        f"the journal record {path} is damaged ({problem[:200]}). Put it back from a copy, or remove it: the "
        "submission is then graded again, and only its earlier attempts are forgotten. Manual scores stand in the "
        "gradebook."
    )
