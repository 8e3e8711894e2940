"""The releases that were published from a course, and which of them a submission was made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..course import Course, CourseError
from ..files import write_text_atomically
from .history import PastRelease, followed, in_words


@dataclass(frozen=True)
class Published:
    """One published release: its tag, when (UTC) and where to it was published, and what it was made from."""

    tag: str
    when: str
    repository: str
    commit: str
    assignments: dict[str, str]
    """Assignment -> version."""


def read_published(root: Path) -> list[Published]:
    """What was published from a course's working folder, oldest first. Raises CourseError when the list is damaged."""
    path = root / "published.json"
    try:
        return [Published(**entry) for entry in json.loads(path.read_text("utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise CourseError(f"{path} cannot be read ({error}). Put a copy back, or move it away to begin anew.") from None


def add_published(course: Course, tag: str, repository: str, commit: str, assignments: dict[str, str]) -> None:
    """Note a release, in place of an earlier one with the same tag and repository."""
    new = Published(tag, f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", repository, commit, assignments)
    kept = [old for old in read_published(course.root) if (old.tag, old.repository) != (tag, repository)]
    text = json.dumps([asdict(entry) for entry in [*kept, new]], indent=2)
    write_text_atomically(course.root / "published.json", text + "\n")


def which_release(
    published: Sequence[Published],
    assignment: str,
    version: str | None,
    tag: str | None,
    releases: Sequence[PastRelease] = (),
) -> str:
    """Which release a submission says it was made from, in words for the gradebook and the student's page.

    Args: what was published, the assignment, what the submission's stamp says, and the assignment's releases.
    """
    if tag is None:
        return in_words(releases, version) if version else "unknown"
    for entry in published:
        if entry.tag == tag and entry.assignments.get(assignment) == version:
            return f"{tag}, published {entry.when}{followed(releases, version)}"
    return f"{tag}, not published from this course"
