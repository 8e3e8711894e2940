"""Why a submission or a question is in its state. The kind is a type, so no program has to read the sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum, auto
from typing import Any


class Kind(StrEnum):
    """What happened. `OTHER` is whatever needs no kind, and everything in records that were written without kinds."""

    # What ended a kernel or a cell.
    OUT_OF_TIME = auto()
    KERNEL_DIED = auto()
    KERNEL_STOPPED = auto()
    KERNEL_TOLD_TO_END = auto()
    CELL_ENDED_ITSELF = auto()
    # What was wrong with an observation.
    TEST_CELL_STOPPED = auto()
    NOT_OBSERVED = auto()
    PUBLISHED_TWICE = auto()
    MALFORMED = auto()
    NOT_JUDGED = auto()
    # Why a file cannot be read.
    EMPTY = auto()
    NOT_JSON = auto()
    NOT_A_NOTEBOOK = auto()
    MERGE_CONFLICT = auto()
    HALF_A_MERGE_CONFLICT = auto()
    NO_NOTEBOOK = auto()
    ANOTHER_NOTEBOOK = auto()
    SEVERAL_NOTEBOOKS = auto()
    # What is said beside the state.
    LATE = auto()
    MARKED_LATE = auto()
    NOTE = auto()
    """No incident: what was repaired, or what a person should know."""
    OTHER = auto()


@dataclass(frozen=True)
class Reason:
    """What happened, where, and the sentence for the student and the instructor, which may quote the submission."""

    kind: Kind
    text: str
    detail: str = ""
    """What of the sentence everybody may see: a number, a time, the name of an exception."""
    cell: str = ""
    """What people call the cell that is to blame."""
    question: str | None = None

    def __str__(self) -> str:
        place = self.cell or self.question
        return f"{place}: {self.text}" if place else self.text

    def as_record(self) -> dict[str, Any]:
        """Plain data for the journal and the notebook's metadata."""
        record = asdict(self)
        return {"kind": record.pop("kind"), "reason": record.pop("text"), **record}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Reason:
        """The reverse of `as_record`; a record of another checkout may have no kind, or one that is unknown here."""
        return cls(
            kind_of(record.get("kind")),
            str(record["reason"]),
            str(record.get("detail") or ""),
            str(record.get("cell") or ""),
            record.get("question"),
        )


def kind_of(name: object) -> Kind:
    """The kind of this name."""
    return next((kind for kind in Kind if kind == name), Kind.OTHER)
