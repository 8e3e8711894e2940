"""Takes what was handed in into nbgrader's folders: packed files, nbgrader's folders, exports of an LMS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..course import Course, CourseError, released
from ..notebooks import assignments as all_assignments
from ..writer import only_writer
from .desk import Desk
from .notes import NotPlaced, update_not_placed
from .placement import PlacedNotebook, Placement, Unplaced
from .roster import Owners, Roster
from .times import due_dates
from .uploads import Upload, uploads_in


@dataclass(frozen=True)
class Collected:
    """One file: its student, what was taken from it or why nothing was, and notes for the instructor."""

    file: Path
    label: str
    student: str | None
    notebooks: tuple[str, ...]
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _StudentFiles:
    """One student's files for one assignment."""

    notebooks: list[PlacedNotebook] = field(default_factory=list)
    ungraded: list[Upload] = field(default_factory=list)


def collect(
    course: Course,
    paths: Iterable[Path],
    assignments: Iterable[str],
    *,
    mapping: Path | None = None,
    archive_times: bool = False,
) -> list[Collected]:
    """Take what students handed in. Files that cannot be placed are reported and noted; the others are taken.

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

    Raises CourseError when the roster, the mapping or the due dates cannot be used, an assignment was not released, or
    another command is writing.

    """
    wanted = list(assignments)
    for assignment in wanted:
        course.require_release(assignment)
    # Read for its errors alone: a mistake in assignments.csv is reported before any file is taken.
    due_dates(course, {*all_assignments(), *released(course)})
    paths = list(paths)
    for path in paths:
        if any(path.resolve() == own.resolve() for own in (course.root, course.step("source"), course.step("release"))):
            raise CourseError(f"{path} is the course's own folder, with its solutions; name the one that you were sent")
    with only_writer(course, "collect"):
        return _collect(course, paths, wanted, Owners(Roster(course), mapping), archive_times)


def _collect(
    course: Course, paths: Sequence[Path], wanted: Sequence[str], owners: Owners, archive_times: bool
) -> list[Collected]:
    placement = Placement(course, wanted, owners)
    files: dict[tuple[str, str], _StudentFiles] = {}
    without_assignment: list[tuple[str, Upload]] = []
    results: list[Collected] = []
    not_placed: list[NotPlaced] = []

    def set_aside(upload: Upload, reason: str, student: str | None, assignment: str | None) -> None:
        results.append(Collected(upload.source, upload.label, student, (), reason))
        digest = upload.digest if upload.has_content else ""
        not_placed.append(NotPlaced(upload.label, digest, reason, student, assignment))

    for upload in uploads_in(paths, wanted, released(course), owners.roster, archive_times=archive_times):
        try:
            if upload.problem is None:
                placed = placement.place(upload)
                # A class's notebooks are gigabytes with their outputs.
                placed = replace(placed, upload=placed.upload.let_go())
                files.setdefault((placed.student, placed.assignment), _StudentFiles()).notebooks.append(placed)
            else:
                without_assignment.append((placement.claim(upload).student, upload.let_go()))
        except Unplaced as error:
            set_aside(upload, str(error), error.student, error.assignment or placement.about(upload))
    for student, upload in without_assignment:
        # A file that does not say for which assignment it is belongs beside the student's notebooks, or to each.
        about = placement.about(upload)
        beside = [assignment for owner, assignment in files if owner == student and files[owner, assignment].notebooks]
        for assignment in [about] if about else beside or wanted:
            files.setdefault((student, assignment), _StudentFiles()).ungraded.append(upload)
    desks = {key: Desk(course, key[1], key[0]) for key in files}
    # A file that holds several notebooks is somebody's as a whole.
    doubts: dict[tuple[str, Path, str], str] = {}
    for (student, assignment), submission in files.items():
        disputed, why = desks[student, assignment].disputed(submission.notebooks)
        doubts |= {(student, item.upload.source, item.upload.label): why for item in disputed}
    settled: set[str] = set()
    for (student, assignment), submission in files.items():
        desk = desks[student, assignment]
        uploads = [*(item.upload for item in submission.notebooks), *submission.ungraded]
        if desk.refusal:
            for upload in uploads:
                set_aside(upload, desk.refusal, student, assignment)
        else:
            results += _take(desk, assignment, student, submission, owners.roster, doubts)
            settled |= {upload.digest for upload in uploads if upload.has_content}
    update_not_placed(course, not_placed, lambda entry: entry.digest in settled)
    return _by_file(results)


def _take(
    desk: Desk,
    assignment: str,
    student: str,
    files: _StudentFiles,
    roster: Roster,
    doubts: Mapping[tuple[str, Path, str], str],
) -> list[Collected]:
    """Take one student's files for one assignment, and report what happened to each."""
    remarks = [unknown] if (unknown := roster.unknown(student)) else []
    doubt_of = {item: doubts.get((student, item.upload.source, item.upload.label), "") for item in files.notebooks}
    result = desk.take(
        files.notebooks, files.ungraded, remarks, {item: text for item, text in doubt_of.items() if text}
    )
    results = []
    for item in files.notebooks:
        name, notes = (item.upload.source, item.upload.label, student), tuple(result.notes)
        if item in result.held:
            results.append(Collected(*name, (), f"{result.why_held} `autograde confirm` shows and settles it"))
        elif item in result.rejected:
            results.append(Collected(*name, (), desk.rejection(item)))
        # The notes are about the student's files together, so they are said once, with the notebook that counts.
        elif item is result.chosen or result.chosen is None:
            results.append(Collected(*name, (assignment,), None, notes))
        else:
            results.append(Collected(*name, (assignment,)))
    for upload in files.ungraded:
        # Beside a notebook, a file that is not graded is worth a note; without one it is why there is no score.
        if result.has_notebook:
            results.append(
                Collected(upload.source, upload.label, student, (), None, (f"not graded: {upload.problem}",))
            )
        else:
            results.append(Collected(upload.source, upload.label, student, (), upload.problem))
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
            problem = "; ".join(dict.fromkeys(filter(None, [before.problem, result.problem]))) or None
            merged[key] = Collected(before.file, before.label, before.student, names, problem, notes)
    return sorted(merged.values(), key=lambda result: (str(result.file), result.label))
