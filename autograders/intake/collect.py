"""Takes what was handed in into nbgrader's folders: packed files, nbgrader's folders, exports of an LMS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..course import Course, CourseError, released
from ..notebooks import assignments as all_assignments
from .desk import Desk
from .notes import NotPlaced, digest_of, update_not_placed
from .placement import Placed, Placing, Unplaced
from .roster import Owners, Roster
from .times import due_dates
from .uploads import Sent, everything_sent


@dataclass(frozen=True)
class Collected:
    """One file: whose it is and what was taken, or why it was not; and what an instructor should know of it."""

    file: Path
    label: str
    student: str | None
    notebooks: tuple[str, ...]
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Files:
    """One student's files for one assignment."""

    items: list[Placed] = field(default_factory=list)
    others: list[Sent] = field(default_factory=list)


def collect(
    course: Course,
    paths: Iterable[Path],
    assignments: Iterable[str],
    *,
    mapping: Path | None = None,
    archive_times: bool = False,
) -> list[Collected]:
    """Take what students handed in; what cannot be placed is said and noted, and the rest is taken.

    Of several notebooks of one student the one handed in last counts, and one with answers before one without; the
    others are kept in `attempts/`. Where it is not certain which is the student's, nothing is replaced, and a person
    decides (`autograde confirm`).

    Args:
        course: the course's folder, with its assignments released.
        paths: files made by `lecture submit`, notebooks, exports of an LMS (a zip or a folder), or folders laid out as
            nbgrader's `submitted/ID/ASSIGNMENT/`.
        assignments: the assignments to take.
        mapping: a CSV with the columns `file` or `name` (a pattern), `id`, and optionally `submitted` and `late`; or
            Moodle's grading worksheet.
        archive_times: whether the times of the files in an LMS's zip are the times of handing in.

    Raises CourseError when the roster, the mapping or the due dates cannot be used, or an assignment was not released.

    """
    wanted = list(assignments)
    for assignment in wanted:
        course.require_release(assignment)
    due_dates(course, {*all_assignments(), *released(course)})
    paths = list(paths)
    for path in paths:
        if any(path.resolve() == own.resolve() for own in (course.root, course.step("source"), course.step("release"))):
            raise CourseError(f"{path} is the course's own folder, with its solutions; name the one that you were sent")
    owners = Owners(Roster(course), mapping)
    placing = Placing(course, wanted, owners)
    files: dict[tuple[str, str], _Files] = {}
    loose: list[tuple[str, Sent]] = []
    results: list[Collected] = []
    nobodys: list[NotPlaced] = []
    for sent in everything_sent(paths, wanted, released(course), archive_times=archive_times):
        try:
            if sent.problem is None:
                placed = placing.place(sent)
                files.setdefault((placed.student, placed.assignment), _Files()).items.append(placed)
            else:
                loose.append((placing.claim(sent).student, sent))
        except Unplaced as error:
            results.append(Collected(sent.source, sent.label, None, (), str(error)))
            nobodys.append(NotPlaced(sent.label, digest_of(sent.content) if sent.content else "", str(error)))
    for student, sent in loose:
        # A file that does not say for which assignment it is belongs beside the student's notebooks, or to each.
        about = placing.about(sent)
        beside = [assignment for owner, assignment in files if owner == student and files[owner, assignment].items]
        for assignment in [about] if about else beside or wanted:
            files.setdefault((student, assignment), _Files()).others.append(sent)
    desks = {key: Desk(course, key[1], key[0]) for key in files}
    # A file that holds several notebooks is somebody's as a whole.
    doubts: dict[tuple[str, Path, str], str] = {}
    for (student, assignment), of in files.items():
        disputed, why = desks[student, assignment].disputed(of.items)
        doubts |= {(student, item.sent.source, item.sent.label): why for item in disputed}
    for (student, assignment), of in files.items():
        results += _take(desks[student, assignment], assignment, student, of, owners.roster, doubts)
    taken = {digest_of(placed.sent.content) for of in files.values() for placed in of.items}
    update_not_placed(course, nobodys, taken | {digest_of(sent.content) for _, sent in loose if sent.content})
    return _by_file(results)


def _take(
    desk: Desk,
    assignment: str,
    student: str,
    of: _Files,
    roster: Roster,
    doubts: Mapping[tuple[str, Path, str], str],
) -> list[Collected]:
    """What became of one student's files."""
    told = [unknown] if (unknown := roster.unknown(student)) else []
    why = {item: doubts.get((student, item.sent.source, item.sent.label), "") for item in of.items}
    taken = desk.take(of.items, of.others, told, {item: text for item, text in why.items() if text})
    results = []
    for item in of.items:
        name, notes = (item.sent.source, item.sent.label, student), tuple(taken.notes)
        if item in taken.held:
            results.append(Collected(*name, (), f"{taken.why_held} `autograde confirm` shows and settles it"))
        elif item is taken.chosen or taken.chosen is None:
            results.append(Collected(*name, (assignment,), None, notes))
        else:
            results.append(Collected(*name, (assignment,)))
    for sent in of.others:
        if taken.has_notebook:
            results.append(Collected(sent.source, sent.label, student, (), None, (f"not graded: {sent.problem}",)))
        else:
            results.append(Collected(sent.source, sent.label, student, (), sent.problem))
    return results


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
            names = tuple(dict.fromkeys([*before.notebooks, *result.notebooks]))
            problem = before.problem or result.problem
            merged[key] = Collected(before.file, before.label, before.student, names, problem, notes)
    return sorted(merged.values(), key=lambda result: (str(result.file), result.label))
