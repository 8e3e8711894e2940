"""Opens what an instructor was sent: each notebook in it as bytes, and what it says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path, PurePosixPath
from typing import Any

from .folders import Archive, Entry, RefusedArchive, entries, is_folder, kind_of, read_file
from .roster import is_own_id
from .times import TIMESTAMP, handed_in

MANIFEST = "manifest.json"
_EXPECTED = (".ipynb", ".zip")


@dataclass(frozen=True)
class Sent:
    """One notebook, or a file that is none (`problem`), as it was sent."""

    source: Path
    label: str
    """The path inside what was collected: `ID.ipynb`, `Name_1_assignsubmission_file_/x.ipynb`, `export.zip/…`."""
    content: bytes = b""
    problem: str | None = None
    packed_by: str | None = None
    """The id that the file says it is of, when `lecture submit` made it. A student can write any there."""
    packed_name: str = ""
    assignment: str | None = None
    student: str | None = None
    """The folder of nbgrader's that it lay in."""
    submitted: str | None = None
    """When it says that it was handed in."""


def everything_sent(paths: Iterable[Path], assignments: Sequence[str], *, archive_times: bool) -> Iterator[Sent]:
    """Every notebook below `paths`, and every file that should have been one."""
    for path in paths:
        if not path.exists() and not path.is_symlink():
            yield Sent(path, path.name, problem="it does not exist")
        elif (kind := kind_of(path)) is not None:
            yield Sent(path, path.name, problem=f"it is {kind}, which is not followed")
        elif not is_folder(path):
            yield from _opened(Sent(path, path.name), _read(path), assignments, archive_times)
        else:
            for entry in entries(path):
                sent = Sent(path / entry.name, entry.name, problem=entry.problem)
                if entry.problem is not None:
                    yield sent
                elif entry.name.lower().endswith(_EXPECTED):
                    sent = _in_folder_of_nbgrader(sent, assignments)
                    yield from _opened(sent, _read(path / entry.name), assignments, archive_times)
                elif PurePosixPath(entry.name).name != TIMESTAMP:
                    yield replace(sent, problem="it is no notebook")


def _read(path: Path) -> bytes | Path | str:
    """A file's bytes, or why there are none; an archive stays where it is: a class's export is larger than a file."""
    if path.name.lower().endswith(".zip"):
        return path
    try:
        return read_file(path)
    except (OSError, RefusedArchive) as error:
        return str(error)


def _in_folder_of_nbgrader(sent: Sent, assignments: Sequence[str]) -> Sent:
    parts = sent.source.parts
    if len(parts) < 3 or parts[-2] not in assignments:
        return sent
    time = handed_in(sent.source.parent).time
    submitted = None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"
    return replace(sent, assignment=parts[-2], student=parts[-3], submitted=submitted)


def _opened(
    sent: Sent, content: bytes | Path | str, assignments: Sequence[str], archive_times: bool, *, inside: bool = False
) -> Iterator[Sent]:
    """The notebooks in a file: itself, or those of the archive that it is."""
    if isinstance(content, str):
        yield replace(sent, problem=content)
    elif isinstance(content, bytes) and not sent.label.lower().endswith(".zip"):
        yield replace(sent, content=content)
    else:
        try:
            archive = Archive(content)
            if any(entry.name == MANIFEST for entry in archive.entries()):
                yield from _packed(sent, archive, assignments)
                return
            found = [entry for entry in archive.entries() if _concerns(entry)]
        except RefusedArchive as error:
            yield replace(sent, problem=str(error))
            return
        if not found:
            yield replace(sent, problem="there is no notebook in it")
        for entry in found:
            yield from _member(sent, archive, entry, assignments, archive_times, inside=inside)


def _concerns(entry: Entry) -> bool:
    return entry.problem is not None or entry.name.lower().endswith(_EXPECTED)


def _member(
    outer: Sent, archive: Archive, entry: Entry, assignments: Sequence[str], archive_times: bool, *, inside: bool
) -> Iterator[Sent]:
    sent = replace(outer, label=f"{outer.label}/{entry.name}")
    if archive_times and not inside and entry.modified is not None:
        sent = replace(sent, submitted=f"{entry.modified.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    if entry.problem is not None:
        yield replace(sent, problem=entry.problem)
    elif inside and entry.name.lower().endswith(".zip"):
        yield replace(sent, problem="it is an archive in an archive in an archive")
    else:
        try:
            content: bytes | Path | str = archive.read(entry.name)
        except RefusedArchive as error:
            content = str(error)
        yield from _opened(sent, content, assignments, archive_times, inside=True)


def _packed(sent: Sent, archive: Archive, assignments: Sequence[str]) -> Iterator[Sent]:
    """What `lecture submit` packed. One that is damaged is refused as a whole: it was made by a program."""
    try:
        problems = [entry for entry in archive.entries() if entry.problem is not None]
        if problems:
            raise RefusedArchive(f"{problems[0].name}: {problems[0].problem}")
        manifest: Any = json.loads(archive.read(MANIFEST))
        student, listed = manifest["id"], manifest["notebooks"]
        wanted = [name for name in listed if name in assignments]
        contents = {name: archive.read(f"{name}.ipynb") for name in wanted}
        name, submitted = manifest.get("name", ""), manifest.get("submitted", "")
    except (RefusedArchive, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        yield replace(sent, problem=f"not a file made by `lecture submit` ({type(error).__name__}: {error})")
        return
    if not is_own_id(student):
        told = f"{student!r:.60} is no student id (letters, digits and .@+'-_ and spaces)"
        yield replace(sent, problem=told)
    elif not contents:
        yield replace(sent, problem=f"it holds no notebook of this course ({', '.join(sorted(assignments))})")
    else:
        made = replace(sent, packed_by=student, packed_name=str(name)[:100])
        time = sent.submitted or str(submitted)[:100]
        for assignment, content in contents.items():
            yield replace(made, content=content, assignment=assignment, submitted=time)
