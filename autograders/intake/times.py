"""When a submission was handed in and when it was due; stated times are checked before they are used."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from ..course import Course, CourseError
from ..tables import read_csv
from .reading.archives import RefusedArchive, kind_of, read_file

TIMESTAMP = "timestamp.txt"
PENALTIES = ("none", "zero")
_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s*(Z|UTC|[+-]\d\d:?\d\d|[A-Za-z]+(?:[/_+-]\w+)*)?"
)
_MARGIN = timedelta(minutes=10)
"""How far two clocks may differ."""


@dataclass(frozen=True)
class Due:
    """An assignment's due date, in UTC without a zone as nbgrader keeps it, and what being late costs."""

    date: datetime | None
    penalty: str | None
    """`none`, `zero`, or None: as nbgrader is configured."""


@dataclass(frozen=True)
class HandedIn:
    """The time that counts, in UTC without a zone, or None; and why it differs from the stated one."""

    time: datetime | None
    note: str = ""


def parse_time(text: str) -> datetime | None:
    """A time as nbgrader writes it, in UTC without a zone; None when it is not one. Without a zone it is UTC."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    date, time, zone = match.groups()
    try:
        if zone is not None and zone[0] in "+-":
            moment = datetime.fromisoformat(f"{date}T{time}{zone}")
        else:
            moment = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=_zone(zone))
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    # A clock that was never set says 1970 or 1980: no time at which anybody handed in.
    return moment if moment.year >= 2000 else None


def has_zone(text: str) -> bool:
    """Whether a time says its zone, by an offset or by a name that is known here."""
    match = _FORM.fullmatch(text.strip())
    if match is None or match[3] is None:
        return False
    return match[3][0] in "+-" or match[3].upper() in ("Z", "UTC") or _zone(match[3]) is not UTC


def _zone(name: str | None) -> tzinfo:
    """The zone of that name; UTC without one, and for abbreviations that are not unique, as nbgrader has it."""
    try:
        return UTC if name in (None, "Z", "UTC") else ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        return UTC


def handed_in(folder: Path) -> HandedIn:
    """When the submission in `folder` was handed in, from its timestamp.txt.

    A time that cannot be right (unreadable, or later than the file that states it) is replaced by the time at which
    that file was written, so that a false time gains nothing. Without the file nothing is late, as in nbgrader.
    """
    path = folder / TIMESTAMP
    try:
        status = path.lstat()
    except OSError:
        return HandedIn(None, "no time of handing in is known")
    received = datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None)
    instead = f"{received:%Y-%m-%d %H:%M} UTC, when the file was received, is taken"
    if (kind := kind_of(path)) is not None or not path.is_file():
        return HandedIn(received, f"the {TIMESTAMP} is {kind or 'a folder'}; {instead}")
    try:
        text = read_file(path)[:200].decode("utf-8", "replace").strip("\ufeff \r\n\t\0")
    except (OSError, RefusedArchive) as error:
        text = type(error).__name__
    time = parse_time(text)
    if time is None:
        return HandedIn(received, f"the {TIMESTAMP} holds no time ({text[:40]!r}); {instead}")
    if time > received + _MARGIN:
        return HandedIn(
            received, f"the {TIMESTAMP} says {time:%Y-%m-%d %H:%M} UTC, later than it was written; {instead}"
        )
    return HandedIn(time)


def due_dates(course: Course, assignments: Collection[str] | None = None) -> dict[str, Due]:
    """The due dates in the course's `assignments.csv`: columns `assignment`, `due`, and optionally `late_penalty`.

    Raises CourseError with the remedy when a line cannot be read, or names an assignment that is not among
    `assignments`. Without the file, nbgrader's own due dates hold.
    """
    path = course.root / "assignments.csv"
    if not path.exists():
        return {}
    table = read_csv(path, ["assignment", "due"])
    due: dict[str, Due] = {}
    for number, row in zip(table.numbers, table.rows(), strict=True):
        text, penalty = row["due"].strip(), row.get("late_penalty", "").strip()
        date = parse_time(text)
        # Without a zone a due date would be read as UTC, hours away from what the class was told.
        if text and (date is None or not has_zone(text)):
            raise CourseError(
                f"{path}, line {number}: {text!r} is not a due date; write 2026-03-01 23:59 +0100, with the zone"
            )
        name = row["assignment"].strip()
        if assignments is not None and name not in assignments:
            raise CourseError(
                f"{path}, line {number}: no assignment {name!r}; there are: {', '.join(sorted(assignments))}"
            )
        if penalty and penalty not in PENALTIES:
            raise CourseError(
                f"{path}, line {number}: late_penalty {penalty!r}; nbgrader has {' and '.join(PENALTIES)}"
            )
        if name in due:
            raise CourseError(f"{path}, line {number}: {name} has a line already; leave one of them")
        due[name] = Due(date, penalty or None)
    return due
