"""Takes what was handed in into nbgrader's folders: packed files, nbgrader's folders, exports of an LMS."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from . import notebooks
from .course import Course
from .decoding import Unreadable
from .files import write_bytes_atomically, write_text_atomically
from .handed_in import Sent, everything_sent
from .reading import read_notebook
from .rebuild import related
from .roster import Owners, Roster, is_path_safe, normal_id, plain_owner
from .times import TIMESTAMP, parse_time

_MARGIN = timedelta(minutes=10)


@dataclass(frozen=True)
class Collected:
    """One file: whose it is and what was taken, or why it was not; and what an instructor should know of it."""

    file: Path
    label: str
    student: str | None
    notebooks: tuple[str, ...]
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Placed:
    sent: Sent
    student: str
    assignment: str
    time: datetime | None
    notes: tuple[str, ...]


def collect(
    course: Course,
    paths: Iterable[Path],
    assignments: Iterable[str],
    *,
    mapping: Path | None = None,
    archive_times: bool = False,
) -> list[Collected]:
    """Take what students handed in; what cannot be placed is said and the rest is taken.

    Of several files of one student the one handed in last counts; the others are kept in `attempts/`.

    Args:
        course: the course's folder, with its assignments released.
        paths: files made by `lecture submit`, notebooks, exports of an LMS (a zip or a folder), or folders laid out as
            nbgrader's `submitted/ID/ASSIGNMENT/`.
        assignments: the assignments to take.
        mapping: a CSV with the columns `file` or `name` (a pattern), `id`, and optionally `submitted`.
        archive_times: whether the times of the files in an LMS's zip are the times of handing in.

    Raises CourseError when the roster or the mapping cannot be used, or an assignment was not released.

    """
    known = list(assignments)
    for assignment in known:
        course.require_release(assignment)
    owners = Owners(Roster(course), mapping)
    placing = _Placing(course, known, owners)
    placed: list[_Placed] = []
    results: list[Collected] = []
    for sent in everything_sent(paths, known, archive_times=archive_times):
        try:
            placed.append(placing.place(sent))
        except Unplaced as error:
            results.append(Collected(sent.source, sent.label, None, (), str(error)))
    by_target: dict[tuple[str, str], list[_Placed]] = {}
    for item in placed:
        by_target.setdefault((item.student, item.assignment), []).append(item)
    for items in by_target.values():
        results += _take(course, items, owners.roster)
    return _by_file(results)


class Unplaced(ValueError):  # noqa: N818 - a state of a file, not a fault of ours
    """A file that nobody can be found for, or that is no notebook of the course; the message is the reason."""


class _Placing:
    """Decides whose a file is and which assignment."""

    def __init__(self, course: Course, assignments: Sequence[str], owners: Owners) -> None:
        self._releases = {name: notebooks.read(course.notebook("release", name)) for name in assignments}
        self._owners = owners
        self._now = datetime.now(UTC).replace(tzinfo=None)

    def place(self, sent: Sent) -> _Placed:
        """Raises Unplaced with the reason."""
        if sent.problem is not None:
            raise Unplaced(sent.problem)
        student, submitted, notes = self._student(sent)
        assignment = sent.assignment or self._assignment(sent)
        time, note = self._time(submitted, packed=sent.packed_by is not None)
        return _Placed(sent, student, assignment, time, tuple(filter(None, [*notes, note])))

    def _student(self, sent: Sent) -> tuple[str, str | None, list[str]]:
        owner = self._owners.of(sent.label)
        submitted = owner.submitted or sent.submitted
        claimed = sent.student or sent.packed_by
        if owner.student is not None:
            claims_another = claimed is not None and normal_id(claimed) != owner.student
            told = f"the file says that it is of {claimed}; by {owner.said_by} it is of {owner.student}"
            return owner.student, submitted, [told] if claims_another else []
        if claimed is None and not self._owners.roster.exists and not any(n in sent.label for n in self._releases):
            claimed = plain_owner(sent.label)
        if claimed is None or not is_path_safe(normal_id(claimed)):
            raise Unplaced(owner.said_by)
        return normal_id(claimed), submitted, []

    def _assignment(self, sent: Sent) -> str:
        named = [name for name in self._releases if name in sent.label]
        try:
            nb = read_notebook(sent.content).notebook
        except Unreadable as error:
            found = named or list(self._releases)
            if len(found) == 1:
                return found[0]
            raise Unplaced(f"it cannot be read, and its name does not say which assignment it is: {error}") from None
        found = [name for name, release in self._releases.items() if related(nb, release)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise Unplaced(f"it holds no notebook of this course ({', '.join(sorted(self._releases))})")
        raise Unplaced(f"it has cells of {' and '.join(found)}: hand in one notebook for each")

    def _time(self, submitted: str | None, *, packed: bool) -> tuple[datetime | None, str]:
        if submitted is None:
            return None, ""
        time, taken = parse_time(submitted), "the time of collecting it is taken"
        if time is None:
            return self._now, f"it says no time of handing in ({submitted[:40]!r}); {taken}" if packed else ""
        if time > self._now + _MARGIN:
            return self._now, f"it says that it was handed in at {time:%Y-%m-%d %H:%M} UTC, in the future; {taken}"
        return time, ""


def _take(course: Course, items: list[_Placed], roster: Roster) -> list[Collected]:
    """Write the last of one student's files for one assignment; keep the others, and what was there, in attempts."""
    items = sorted(items, key=lambda item: item.time or datetime.min)
    last = items[-1]
    student, assignment = last.student, last.assignment
    notes = [*last.notes, *filter(None, [roster.unknown(student)])]
    if len(items) > 1:
        notes.append(f"{len(items)} files were handed in for {assignment}; the last one counts")
    if len({item.sent.packed_name for item in items}) > 1:
        names = ", ".join(sorted({item.sent.packed_name or "no name" for item in items}))
        notes.append(f"they have different names in them ({names}): is each of {student}?")
    target = course.notebook("submitted", assignment, student)
    earlier = [item.sent.content for item in items[:-1]]
    if target.is_file() and not target.is_symlink():
        earlier.append(target.read_bytes())
    for content in earlier:
        if content != last.sent.content:
            name = f"{hashlib.sha256(content).hexdigest()[:12]}.ipynb"
            write_bytes_atomically(course.root / "attempts" / student / assignment / name, content)
    write_bytes_atomically(target, last.sent.content)
    if last.time is not None:
        write_text_atomically(target.parent / TIMESTAMP, f"{last.time:%Y-%m-%d %H:%M:%S} UTC\n")
    else:
        (target.parent / TIMESTAMP).unlink(missing_ok=True)
    digest = hashlib.sha256(last.sent.content).hexdigest()
    record = {"file": last.sent.label, "digest": digest, "notes": notes}
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    write_text_atomically(course.root / "collected" / assignment / f"{student}.json", text)
    return [
        Collected(item.sent.source, item.sent.label, student, (assignment,), None, tuple(notes) if item is last else ())
        for item in items
    ]


def _by_file(results: list[Collected]) -> list[Collected]:
    """One entry a file, also where a packed file held several notebooks."""
    merged: dict[tuple[Path, str], Collected] = {}
    for result in results:
        key = (result.file, result.label)
        before = merged.get(key)
        if before is None:
            merged[key] = result
        else:
            notes = tuple(dict.fromkeys([*before.notes, *result.notes]))
            names = (*before.notebooks, *result.notebooks)
            merged[key] = Collected(before.file, before.label, before.student, names, before.problem, notes)
    return sorted(merged.values(), key=lambda result: (str(result.file), result.label))
