"""Looks into folders and archives that students filled: nothing is followed, nothing is unpacked to disk."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path, PurePosixPath

from .decoding import MAX_BYTES

MAX_FILES = 100_000
MAX_DEPTH = 6
_BOMB_BYTES, _BOMB_RATIO = 1_000_000_000, 50
"""Unpacked bytes, and times the archive's size: exports are large, zeros compress well; a bomb exceeds both."""
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class RefusedArchive(ValueError):  # noqa: N818 - a state of a file, not a fault of ours
    """An archive, or a member of one, that is not opened; the message is the reason."""


@dataclass(frozen=True)
class Entry:
    """A file in a folder or an archive: its path inside, and why it is not read (None: it can be)."""

    name: str
    problem: str | None = None
    modified: datetime | None = None
    """When it was written, in local time without a zone, where an archive says so."""
    size: int = 0
    """How many bytes it has, in an archive."""


def kind_of(path: Path) -> str | None:
    """What a path is if it is neither a regular file nor a folder: a link, a pipe, a device; otherwise None."""
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return _KINDS.get(stat.S_IFMT(mode), "a device")


def is_folder(path: Path) -> bool:
    """Whether there is a folder at `path` itself, not at the end of a link."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def entries(folder: Path) -> Iterator[Entry]:
    """Every file below `folder`, in order; what is not followed or not looked into has a problem."""
    for count, (path, problem) in enumerate(_walk(folder, 0), 1):
        name = path.relative_to(folder).as_posix()
        if count > MAX_FILES:
            yield Entry(name, f"more than {MAX_FILES:,} files: this one and those after it were not looked at")
            return
        yield Entry(name, problem)


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, str | None]]:
    """Every file below a folder, and why it is not read (None: it can be); a folder where it is not looked into."""
    try:
        kinds = {path: kind_of(path) for path in sorted(folder.iterdir())}
    except OSError as error:
        yield folder, f"the folder cannot be read ({error.strerror})"
        return
    for path, kind in kinds.items():
        if path.name in ("__MACOSX", ".ipynb_checkpoints") or path.name.startswith("._"):
            continue
        if kind is not None:
            yield path, f"it is {kind}, which is not followed"
        elif not is_folder(path):
            yield path, None
        elif depth == MAX_DEPTH:
            yield path, f"it is nested deeper than {MAX_DEPTH} folders, and was not looked into"
        else:
            yield from _walk(path, depth + 1)


def read_file(path: Path) -> bytes:
    """The bytes of a regular file. Raises RefusedArchive when it is too large or is no regular file."""
    # The path may have become a link or a pipe since it was listed: neither is followed or waited for, and what counts
    # is what was opened.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedArchive(f"{path.name} is not a regular file")
        if status.st_size > MAX_BYTES:
            raise RefusedArchive(f"{path.name} has {status.st_size:,} bytes, {MAX_BYTES:,} are allowed")
        return file.read()


class Archive:
    """A zip file whose members are read one at a time, never unpacked to disk."""

    def __init__(self, source: Path | bytes) -> None:
        """Open it. Raises RefusedArchive when it is not an archive, or when unpacking it would fill the machine."""
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        try:
            self._zip = zipfile.ZipFile(BytesIO(source) if isinstance(source, bytes) else source)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise RefusedArchive(f"not a zip archive, or a damaged one ({type(error).__name__}: {error})") from None
        members = self._zip.infolist()
        # `getinfo` would take the last of several members of one name, `entries` has the first.
        self._members = {member.filename: member for member in reversed(members)}
        unpacked = sum(member.file_size for member in members)
        if len(members) > MAX_FILES or (unpacked > _BOMB_BYTES and unpacked > _BOMB_RATIO * size):
            raise RefusedArchive(
                f"{len(members):,} files with {unpacked:,} bytes in an archive of {size:,}: not unpacked (a zip bomb?)"
            )

    def entries(self) -> Iterator[Entry]:
        """Every file in the archive, in its order."""
        names: set[str] = set()
        for member in self._zip.infolist():
            path = PurePosixPath(member.filename)
            if path.name.startswith("._") or {"__MACOSX", ".ipynb_checkpoints"} & set(path.parts):
                continue
            if member.filename.endswith("/"):  # `is_dir` fails for a member without a name
                continue
            problem = _problem(member)
            if problem is None and member.filename in names:
                problem = "it is there twice; the first one is taken"
            names.add(member.filename)
            yield Entry(member.filename, problem, _modified(member), member.file_size)

    def read(self, name: str) -> bytes:
        """The bytes of one member. Raises RefusedArchive when it is too large, damaged or encrypted."""
        member = self._members.get(name)
        if member is None:
            raise RefusedArchive(f"there is no {name} in it")
        if (problem := _problem(member)) is not None:
            raise RefusedArchive(f"{name}: {problem}")
        try:
            with self._zip.open(member) as file:
                # Not as many bytes as the archive says: that number may be false.
                content = file.read(MAX_BYTES + 1)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
            raise RefusedArchive(f"{name} is damaged ({type(error).__name__}: {error})") from None
        except Exception as error:
            # The decompressors have exceptions of their own (zlib.error, lzma.LZMAError).
            raise RefusedArchive(f"{name} cannot be unpacked ({type(error).__name__})") from None
        if len(content) > MAX_BYTES:
            raise RefusedArchive(f"{name} has more than the {MAX_BYTES:,} bytes that are allowed")
        return content


def _problem(member: zipfile.ZipInfo) -> str | None:
    name = member.filename
    if not name:
        return "it has no name"
    if name.startswith(("/", "\\")) or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/"):
        return "its path leads out of the archive"
    if any(ord(character) < 32 for character in name):
        return "its name holds control characters"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return f"it is {_KINDS.get(kind, 'a device')}, which is not followed"
    if member.flag_bits & 1:
        return "it is encrypted"
    if member.file_size > MAX_BYTES:
        return f"it has {member.file_size:,} bytes, {MAX_BYTES:,} are allowed"
    return None


def _modified(member: zipfile.ZipInfo) -> datetime | None:
    try:
        # 1980 is what a zip has where no time is known.
        return datetime(*member.date_time) if member.date_time[0] > 1980 else None
    except ValueError:
        return None
