"""Takes what students handed in, packed by `lecture submit`, into nbgrader's folders."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .course import Course
from .files import write_bytes_atomically
from .intake import file_digest

MAX_BYTES = 50_000_000
_STUDENT_ID = re.compile(r"[\w][\w.@+' -]{0,99}")


@dataclass(frozen=True)
class Collected:
    """One packed file: whose it is and what was taken, or why it was not."""

    file: Path
    student: str | None
    notebooks: tuple[str, ...]
    problem: str | None = None


def collect(course: Course, paths: Iterable[Path], assignments: Iterable[str]) -> list[Collected]:
    """Take packed submissions (files, or folders of them). An earlier file of the same student is kept aside."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.zip")) if path.is_dir() else [path]
    known = set(assignments)
    return [_collect_one(course, file, known) for file in files]


def _collect_one(course: Course, file: Path, assignments: set[str]) -> Collected:
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            student = manifest["id"]
            if not isinstance(student, str) or not _STUDENT_ID.fullmatch(student):
                return Collected(
                    file, None, (), f"{student!r} is no student id (letters, digits and .@+'-_ and spaces)"
                )
            wanted = [name for name in manifest["notebooks"] if name in assignments]
            contents = {name: _member(archive, f"{name}.ipynb") for name in wanted}
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        return Collected(file, None, (), f"not a file made by `lecture submit` ({type(error).__name__}: {error})")
    if not contents:
        return Collected(file, student, (), f"it holds no notebook of this course ({', '.join(sorted(assignments))})")
    for name, content in contents.items():
        target = course.notebook("submitted", name, student)
        earlier = file_digest(target)
        if earlier is not None and target.read_bytes() != content:
            write_bytes_atomically(
                course.root / "attempts" / student / name / f"{earlier[:12]}.ipynb", target.read_bytes()
            )
        write_bytes_atomically(target, content)
    return Collected(file, student, tuple(contents))


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes; its declared size is checked before anything is unpacked."""
    size = archive.getinfo(name).file_size
    if size > MAX_BYTES:
        raise ValueError(f"{name} has {size:,} bytes, {MAX_BYTES:,} are allowed")
    return archive.read(name)
