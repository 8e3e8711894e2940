"""Decides whose a collected file is, which assignment it answers, and when it was handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from .. import notebooks
from ..course import Course, released
from .reading.decoding import Unreadable
from .reading.identify import named_in, stamped
from .reading.limited_reading import read_notebook, which
from .roster import Owners, is_path_safe, lms_person, name_key, normal_id, plain_owner
from .times import parse_time
from .uploads import Upload

_MARGIN = timedelta(minutes=10)
"""How far the clock of a student's machine may be ahead of this one."""
_MOST_BYTES, _MOST_BYTES_TOGETHER, _MOST_STUDENTS = 10_000_000, 500_000_000, 2_000
"""What is taken for ids that nobody knows: of each file, of all, and how many ids. A roster lifts these limits."""


class Unplaced(ValueError):  # noqa: N818 - a state of a file, not a fault of ours
    """A file whose student is unknown, or that is not a notebook of this course; the message is the reason."""

    def __init__(self, reason: str, student: str | None = None, assignment: str | None = None) -> None:
        """Args: the reason; whose the file is and for which assignment, where that is known all the same."""
        super().__init__(reason)
        self.student, self.assignment = student, assignment


@dataclass(frozen=True)
class Claim:
    """Whose a file is, as far as that can be known, and by what evidence."""

    student: str
    origin: str
    sure: bool
    """Whether a person or an LMS says it; else the file does, and a student can write anything there."""
    submitted: str | None
    late: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedNotebook:
    """A notebook with its student, assignment and time."""

    upload: Upload
    claim: Claim
    assignment: str
    time: datetime | None
    notes: tuple[str, ...]

    @property
    def student(self) -> str:
        """The student's id."""
        return self.claim.student


class Placement:
    """Decides for one run of `autograde collect`."""

    def __init__(self, course: Course, assignments: Sequence[str], owners: Owners) -> None:
        self._wanted = list(assignments)
        # Of all that were released: what is of another assignment is not to be taken for one of these.
        self._releases = {name: notebooks.read(course.notebook("release", name)) for name in released(course)}
        self._owners = owners
        self._now = datetime.now(UTC).replace(tzinfo=None)
        self._unknown: dict[str, int] = {}
        """Bytes of each id that is not on the roster."""

    def place(self, upload: Upload) -> PlacedNotebook:
        """Place one notebook. Raises Unplaced with the reason."""
        claim = self.claim(upload)
        try:
            assignment = upload.assignment or self._assignment(upload)
        except Unplaced as error:
            raise Unplaced(str(error), claim.student, error.assignment or self.about(upload)) from None
        self._refuse_too_much(claim, len(upload.content))
        time, note = self._time(claim.submitted, packed=upload.packed_by is not None)
        return PlacedNotebook(upload, claim, assignment, time, tuple(filter(None, [*claim.notes, note])))

    def claim(self, upload: Upload) -> Claim:
        """Whose a file is. Raises Unplaced with the reason."""
        claim = self._claim(upload)
        if claim.student in self._releases:
            raise Unplaced(f"{claim.student!r} is the name of an assignment, not the id of a student")
        return claim

    def _claim(self, upload: Upload) -> Claim:
        owner = self._owners.of(upload.label)
        submitted = owner.submitted or upload.submitted
        if upload.student and upload.packed_by and normal_id(upload.packed_by) != upload.student and not owner.sure:
            raise Unplaced(
                f"it lies in the folder of {upload.student}, and says that {upload.packed_by} packed it: say whose it "
                "is in a mapping file"
            )
        claimed = upload.student or upload.packed_by
        packed = "" if upload.packed_by is None else f", packed by {name_key(upload.packed_name) or 'no name'}"
        if owner.student is not None:
            # The mapping or the LMS decides: a student can write any id into a file.
            contradiction = f"the file says that it is of {claimed}; by {owner.said_by} it is of {owner.student}"
            contradicts = claimed is not None and normal_id(claimed) != owner.student
            # The name inside tells two people apart who hand in under one id (see `Desk.disputed`).
            origin = owner.said_by if owner.sure else owner.said_by + packed
            return Claim(owner.student, origin, owner.sure, submitted, owner.late, (contradiction,) * contradicts)
        origin, sure = "nbgrader's folder" if upload.student else f"the file itself{packed}", bool(upload.student)
        if (
            claimed is None
            and upload.problem is None
            and not self._owners.roster.exists
            and not self._names(upload.label)
        ):
            # A class without a roster hands in `ID.ipynb`; a name that says the assignment is not an id.
            claimed, origin = plain_owner(upload.label), "the file's name"
        if claimed is None or not is_path_safe(normal_id(claimed)):
            raise Unplaced(upload.problem or owner.said_by)
        person = lms_person(upload.label)
        return Claim(normal_id(claimed), f"{origin} in {person}" if person else origin, sure, submitted, owner.late)

    def about(self, upload: Upload) -> str | None:
        """The assignment that a file was handed in for, where its folder, its name or this run leaves no doubt."""
        return upload.assignment or self._names(upload.label) or (self._wanted[0] if len(self._wanted) == 1 else None)

    def _names(self, label: str) -> str | None:
        return named_in(label, self._wanted)

    def _assignment(self, upload: Upload) -> str:
        named = self._names(upload.label)
        if (assignment := stamped(upload.content, self._releases)) in self._wanted:
            return str(assignment)
        try:
            candidates = which(read_notebook(upload.content).notebook, self._releases)
        except Unreadable as error:
            if (about := self.about(upload)) is not None:
                return about
            raise Unplaced(f"it cannot be read, and its name does not say which assignment it is: {error}") from None
        # Anybody can rename a file, so its name only decides between assignments whose cells are in it.
        if len(candidates) > 1 and named in candidates:
            candidates = [str(named)]
        if len(candidates) > 1:
            raise Unplaced(f"it has cells of {' and '.join(candidates)}: hand in one notebook for each")
        if not candidates:
            raise Unplaced(f"it holds no notebook of this course ({', '.join(sorted(self._releases))})")
        if candidates[0] not in self._wanted:
            reason = f"it is of {candidates[0]}, and only {', '.join(self._wanted)} is collected now"
            raise Unplaced(reason, assignment=candidates[0])
        return candidates[0]

    def _refuse_too_much(self, claim: Claim, size: int) -> None:
        """Raise Unplaced when ids that are not on the roster hand in too much: anybody can invent a thousand ids."""
        if claim.sure or claim.student in self._owners.roster:
            return
        if size > _MOST_BYTES:
            raise Unplaced(
                f"{size:,} bytes, and {claim.student} is on no roster: such ids may hand in {_MOST_BYTES:,}. Enter "
                "the id in roster.csv, or name the file in a mapping, and collect again"
            )
        together = sum(self._unknown.values()) + size
        if together > _MOST_BYTES_TOGETHER or len({*self._unknown, claim.student}) > _MOST_STUDENTS:
            raise Unplaced(
                f"{len(self._unknown):,} ids that are on no roster handed in {together:,} bytes; {_MOST_STUDENTS:,} "
                f"ids and {_MOST_BYTES_TOGETHER:,} bytes are taken at once. Make a roster.csv, and collect again"
            )
        self._unknown[claim.student] = self._unknown.get(claim.student, 0) + size

    def _time(self, submitted: str | None, *, packed: bool) -> tuple[datetime | None, str]:
        if submitted is None:
            return None, ""
        time, instead = parse_time(submitted), "the time of collecting it is taken"
        if time is None:
            return self._now, f"it says no time of handing in ({submitted[:40]!r}); {instead}" if packed else ""
        if time > self._now + _MARGIN:
            return self._now, f"it says that it was handed in at {time:%Y-%m-%d %H:%M} UTC, in the future; {instead}"
        return time, ""


def base_name(label: str) -> str:
    """The file's own name in a label."""
    return PurePosixPath(label).name
