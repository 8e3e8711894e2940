"""The releases of each assignment, what each of them asked, and what a new one means for what was handed in before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from .. import notebooks
from ..course import Course, CourseError
from ..files import write_text_atomically
from ..grading.journal import look_up
from ..intake.intake import submitted_students
from ..nbgrader.scores import question_of
from ..notebooks import STAMP

REMOVED_SCORES = "removed-scores.csv"
"""What a person gave to questions that a later release does not ask any more."""


@dataclass(frozen=True)
class QuestionCells:
    """What a release asked in one question: its points, and a digest of its cells as students got them."""

    points: float
    cells: str


@dataclass(frozen=True)
class PastRelease:
    """One release of an assignment: its version, when it was entered (UTC), and its questions in order."""

    version: str
    when: str
    questions: dict[str, QuestionCells]


History = Mapping[str, Sequence[PastRelease]]
"""Assignment -> its releases, oldest first; the last one is what is graded."""


def read_history(course: Course) -> dict[str, list[PastRelease]]:
    """The releases of a course. Raises CourseError when the list is damaged."""
    path = _path(course)
    try:
        content = json.loads(path.read_text("utf-8"))
        return {name: [_release(entry) for entry in entries] for name, entries in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CourseError(f"{path} cannot be read ({error}). Put a copy back, or move it away to begin anew.") from None


def note_release(course: Course, assignment: str) -> None:
    """Note what lies in the course's folder as the newest release of an assignment, unless that is noted already."""
    path = course.notebook("release", assignment)
    if not path.is_file():
        return
    new = release_of(path)
    history = read_history(course)
    releases = history.setdefault(assignment, [])
    if not releases or releases[-1].version != new.version:
        releases.append(new)
        content = {name: [asdict(entry) for entry in entries] for name, entries in history.items()}
        write_text_atomically(_path(course), json.dumps(content, indent=1) + "\n")


def release_of(path: Path) -> PastRelease:
    """What a released notebook asks; its time is that of the file."""
    nb = notebooks.read(path)
    cells: dict[str, list[tuple[str, str]]] = {}
    points: dict[str, float] = {}
    for cell in nb.cells:
        names = cell.metadata.get("nbgrader", {})
        grade_id = names.get("grade_id", "")
        question = question_of(grade_id)
        cells.setdefault(question, []).append((grade_id, cell.source.strip()))
        if names.get("grade"):
            points[question] = float(names["points"])
    when = f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"
    questions = {name: QuestionCells(worth, _digest(cells[name])) for name, worth in points.items()}
    return PastRelease(str(nb.metadata.get(STAMP, {}).get("version", "")), when, questions)


def differences(before: PastRelease, after: PastRelease) -> list[str]:
    """What a later release asks differently, a question each; without questions that it added."""
    lines = [f"{name} is not asked any more" for name in before.questions if name not in after.questions]
    for name, new in after.questions.items():
        old = before.questions.get(name)
        if old is None:
            continue
        if old.points != new.points:
            lines.append(f"{name} is worth {new.points:g} points instead of {old.points:g}")
        if old.cells != new.cells:
            lines.append(f"the cells of {name} have changed")
    return lines


def made_from(releases: Sequence[PastRelease], version: str | None) -> PastRelease | None:
    """The release with this version, None if there is none."""
    return next((release for release in reversed(releases) if release.version == version), None)


def added_since(releases: Sequence[PastRelease], version: str | None) -> list[str]:
    """The questions of the newest release that the one with this version did not ask; none if it is unknown."""
    old = made_from(releases, version)
    return [name for name in releases[-1].questions if name not in old.questions] if old is not None else []


def told_since(releases: Sequence[PastRelease], version: str | None) -> str | None:
    """What has changed since the release that a submission was made from, in a sentence; None if nothing has."""
    old = made_from(releases, version)
    changes = differences(old, releases[-1]) if old is not None else []
    return f"changed since the release that it was made from: {', '.join(changes)}" if changes else None


def effects(course: Course, assignment: str, before: PastRelease, after: PastRelease) -> list[str]:
    """What the step from one release to the next means for what was handed in; empty when it means nothing."""
    students = submitted_students(course, assignment)
    if before.version == after.version or not students:
        return []
    records = [record for student in students if (record := look_up(course, assignment, student)) is not None]
    to_grade = sum(bool(record.version) and record.version != after.version for record in records)
    lines = [f"{assignment}: version {after.version} follows version {before.version}; {len(students)} handed in."]
    lines += [f"  {line}" for line in differences(before, after)]
    if any(name not in after.questions for name in before.questions):
        lines.append(f"    Scores and comments that a person gave there are kept in {REMOVED_SCORES}.")
    for name in (name for name in after.questions if name not in before.questions):
        lines.append(f"  {name} is new, {after.questions[name].points:g} points. Where an earlier notebook did not")
        lines.append("    have it, it waits for a person, who gives points or has the student hand in again.")
    lines.append(
        f"  `autograde grade` grades {to_grade} of them again, by the new release on new hidden inputs. What they had "
        "is kept in the journal, and scores given by hand stay."
    )
    return lines


def in_words(releases: Sequence[PastRelease], version: str) -> str:
    """A version with when it was released, and whether a later one has followed."""
    release = made_from(releases, version)
    if release is None:
        return f"version {version}"
    return f"version {version}, released {release.when}{followed(releases, version)}"


def followed(releases: Sequence[PastRelease], version: str | None) -> str:
    """What to add to the name of a release that another one has followed."""
    return ", an earlier release" if releases and version != releases[-1].version else ""


def _path(course: Course) -> Path:
    return course.root / "releases.json"


def _release(entry: Mapping[str, object]) -> PastRelease:
    questions = entry["questions"]
    if not isinstance(questions, dict):
        raise TypeError(f"questions are a {type(questions).__name__}")
    cells = {str(name): QuestionCells(**value) for name, value in questions.items()}
    return PastRelease(str(entry["version"]), str(entry["when"]), cells)


def _digest(cells: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]
