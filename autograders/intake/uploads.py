"""Opens the files that an instructor was sent: each notebook as bytes, with what the file says about itself."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path, PurePosixPath
from typing import Any

from ..course import CourseError
from .notes import digest_of
from .reading.archives import Archive, Entry, RefusedArchive, entries, is_folder, kind_of, read_file
from .roster import Roster, is_own_id, normal_id
from .times import TIMESTAMP, handed_in

MANIFEST = "manifest.json"
_EXPECTED = (".ipynb", ".zip")
_OF_THE_SYSTEM = (".DS_Store", "Thumbs.db", "desktop.ini", TIMESTAMP)
"""Files that programs leave in a folder, and nobody hands in."""
_KEPT_BYTES = 5_000_000
"""A file that is not a notebook is kept as it was sent up to this size; a larger one is only noted."""
_KINDS = {
    ".pdf": "a PDF",
    ".html": "an HTML page",
    ".htm": "an HTML page",
    ".py": "a Python script",
    ".txt": "a text",
    ".md": "a text",
    ".csv": "a table",
    ".docx": "a Word document",
    ".odt": "a document",
    ".png": "a picture",
    ".jpg": "a picture",
    ".jpeg": "a picture",
    **dict.fromkeys((".rar", ".7z", ".gz", ".tgz", ".tar", ".bz2", ".xz"), "an archive of another kind than zip"),
}


@dataclass(frozen=True)
class Upload:
    """One file as it was sent: a notebook, or something else with its `problem`."""

    source: Path
    label: str
    """The path inside what was collected: `ID.ipynb`, `Name_1_assignsubmission_file_/x.ipynb`, `export.zip/…`."""
    held: bytes = b""
    """The file's content while it is in memory."""
    problem: str | None = None
    packed_by: str | None = None
    """The id that the file says it is of, when `lecture submit` made it. A student can write any there."""
    packed_name: str = ""
    assignment: str | None = None
    student: str | None = None
    """Whose folder of nbgrader's it lay in."""
    submitted: str | None = None
    """When it says that it was handed in."""
    members: tuple[str, ...] = ()
    """Where it is in the archive at `source`: the name there, and in an archive within that one its name in it."""
    known_digest: str = ""
    """The digest of a content that was let go."""

    @property
    def content(self) -> bytes:
        """The notebook; of a file that is none, what is kept of it. Raises CourseError when it is another by now."""
        if self.held or not self.known_digest:
            return self.held
        try:
            content = _bytes_at(self.source, self.members)
        except (OSError, RefusedArchive):
            content = b""
        if digest_of(content) != self.known_digest:
            raise CourseError(f"{self.source} was changed while it was collected: collect it again.")
        return content

    @property
    def has_content(self) -> bool:
        """Whether anything of the file is kept."""
        return bool(self.held or self.known_digest)

    @functools.cached_property
    def digest(self) -> str:
        """The digest of the content."""
        return self.known_digest or digest_of(self.held)

    def let_go(self) -> Upload:
        """The same upload without its content in memory, which is read again where it is needed."""
        return replace(self, held=b"", known_digest=self.digest) if self.held else self


def _bytes_at(source: Path, members: Sequence[str]) -> bytes:
    if not members:
        return read_file(source)
    content = _archive(source).read(members[0])
    for name in members[1:]:
        content = Archive(content).read(name)
    return content


@functools.lru_cache(maxsize=4)  # an export is one archive of thousands of files, or thousands of archives in turn
def _archive(path: Path) -> Archive:
    return Archive(path)


def uploads_in(
    paths: Iterable[Path], assignments: Sequence[str], released: Sequence[str], roster: Roster, *, archive_times: bool
) -> Iterator[Upload]:
    """Every file below `paths`: the notebooks, and the other files with the reason why they are not notebooks.

    Args: the files and folders, the assignments that are collected, all that the course has, the class, and whether
    the times in an archive are those of handing in.
    """
    for path in paths:
        if not path.exists() and not path.is_symlink():
            yield Upload(path, path.name, problem="it does not exist")
        elif (kind := kind_of(path)) is not None:
            yield Upload(path, path.name, problem=f"it is {kind}, which is not followed")
        elif not is_folder(path):
            yield from _file(Upload(path, path.name), path, assignments, released, archive_times)
        else:
            for entry in entries(path):
                upload = Upload(path / entry.name, entry.name, problem=entry.problem)
                upload = _in_folder_of_nbgrader(upload, assignments, roster)
                if entry.problem is not None:
                    yield upload
                elif PurePosixPath(entry.name).name not in _OF_THE_SYSTEM:
                    yield from _file(upload, path / entry.name, assignments, released, archive_times)


def _file(
    upload: Upload, path: Path, assignments: Sequence[str], released: Sequence[str], archive_times: bool
) -> Iterator[Upload]:
    """What is in a file of a folder."""
    if path.name.lower().endswith(_EXPECTED):
        yield from _opened(upload, _read(path), assignments, released, archive_times)
    else:
        size = path.lstat().st_size
        content = _read(path) if size <= _KEPT_BYTES else b""
        yield replace(
            upload, held=content if isinstance(content, bytes) else b"", problem=_no_notebook(path.name, size)
        )


def _no_notebook(name: str, size: int) -> str:
    if size == 0:
        return "the file is empty: it was handed in before it was saved, or the upload failed"
    kind = _KINDS.get(PurePosixPath(name).suffix.lower())
    return f"it is {kind or 'no notebook'}: hand in the .ipynb" + ("" if kind is None else " itself")


def _read(path: Path) -> bytes | Path | str:
    """A file's bytes, or why there are none; an archive stays where it is: a class's export is larger than a file."""
    if path.name.lower().endswith(".zip"):
        return path
    try:
        return read_file(path)
    except (OSError, RefusedArchive) as error:
        return str(error)


def _in_folder_of_nbgrader(upload: Upload, assignments: Sequence[str], roster: Roster) -> Upload:
    """The upload with what `ID/ASSIGNMENT/file` says of it.

    Any folder can be named after an assignment, and the one around it after nobody. So the roster has to have the id;
    without a roster the folder must lie below what is collected, not around it.
    """
    parts = upload.source.absolute().parts
    if len(parts) < 3 or parts[-2] not in assignments:
        return upload
    student, is_below = normal_id(parts[-3]), len(PurePosixPath(upload.label).parts) >= 3
    if not (student in roster if roster.exists else is_below):
        return upload
    time = handed_in(upload.source.parent).time
    submitted = None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"
    return replace(upload, assignment=parts[-2], student=student, submitted=submitted)


def _opened(
    upload: Upload,
    content: bytes | Path | str,
    assignments: Sequence[str],
    released: Sequence[str],
    archive_times: bool,
    *,
    inside: bool = False,
) -> Iterator[Upload]:
    """The notebooks in a file: itself, or those of the archive that it is; and what else is in there."""
    if isinstance(content, str):
        yield replace(upload, problem=content)
        return
    if isinstance(content, bytes) and not upload.label.lower().endswith(".zip"):
        yield replace(upload, held=content)
        return
    original = content if isinstance(content, bytes) and len(content) <= _KEPT_BYTES else b""
    try:
        archive = Archive(content)
        members = [entry for entry in archive.entries() if PurePosixPath(entry.name).name not in _OF_THE_SYSTEM]
    except RefusedArchive as error:
        yield replace(upload, held=original, problem=str(error))
        return
    if any(entry.name == MANIFEST for entry in members):
        yield from _packed(upload, archive, assignments, released)
    elif not members:
        yield replace(upload, held=original, problem="the archive is empty")
    else:
        for entry in members:
            yield from _member(upload, archive, entry, assignments, released, archive_times, inside=inside)


def _member(
    outer: Upload,
    archive: Archive,
    entry: Entry,
    assignments: Sequence[str],
    released: Sequence[str],
    archive_times: bool,
    *,
    inside: bool,
) -> Iterator[Upload]:
    upload = replace(outer, label=f"{outer.label}/{entry.name}", members=(*outer.members, entry.name))
    # The times in an inner archive are from the student's own machine; only the outer one is the LMS's.
    if archive_times and not inside and entry.modified is not None:
        upload = replace(upload, submitted=f"{entry.modified.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    if entry.problem is not None:
        yield replace(upload, problem=entry.problem)
        return
    expected = entry.name.lower().endswith(_EXPECTED)
    try:
        content = archive.read(entry.name) if expected or entry.size <= _KEPT_BYTES else b""
    except RefusedArchive as error:
        yield replace(upload, problem=str(error))
        return
    if not expected:
        yield replace(upload, held=content, problem=_no_notebook(entry.name, entry.size))
    elif inside and entry.name.lower().endswith(".zip"):
        problem = "it is an archive in an archive in an archive, which is not opened: hand in the .ipynb itself"
        yield replace(upload, held=content if len(content) <= _KEPT_BYTES else b"", problem=problem)
    else:
        yield from _opened(upload, content, assignments, released, archive_times, inside=True)


def _packed(upload: Upload, archive: Archive, assignments: Sequence[str], released: Sequence[str]) -> Iterator[Upload]:
    """The contents of a file from `lecture submit`. A damaged one is refused as a whole, since a program made it."""
    try:
        problems = [entry for entry in archive.entries() if entry.problem is not None]
        if problems:
            raise RefusedArchive(f"{problems[0].name}: {problems[0].problem}")
        manifest: Any = json.loads(archive.read(MANIFEST))
        student, names = manifest["id"], manifest["notebooks"]
        collected = [name for name in names if name in assignments]
        contents = {name: archive.read(f"{name}.ipynb") for name in collected}
        name, submitted = manifest.get("name", ""), manifest.get("submitted", "")
    except (RefusedArchive, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        yield replace(upload, problem=f"not a file made by `lecture submit` ({type(error).__name__}: {error})")
        return
    if not is_own_id(student):
        problem = f"{student!r:.60} is no student id (letters, digits and .@+'-_ and spaces)"
        yield replace(upload, problem=problem)
    elif not contents:
        yield replace(upload, problem=f"it holds no notebook of this course ({', '.join(sorted(assignments))})")
    else:
        packed = replace(upload, packed_by=student, packed_name=str(name)[:100])
        time = upload.submitted or str(submitted)[:100]
        for assignment, content in contents.items():
            yield replace(
                packed,
                held=content,
                members=(*upload.members, f"{assignment}.ipynb"),
                assignment=assignment,
                submitted=time,
            )
        # Notebooks of assignments that are not collected now belong in the file all the same.
        expected = {MANIFEST, *(f"{name}.ipynb" for name in {*released, *contents})}
        for entry in archive.entries():
            if entry.name not in expected:
                problem = "it is in a packed file, and `lecture submit` did not put it there"
                yield replace(packed, label=f"{upload.label}/{entry.name}", problem=problem)
