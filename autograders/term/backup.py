"""A copy of a course in one file, with its secret: from it another folder or machine goes on as this one would."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..course import Course, CourseError
from ..files import is_part, open_part
from ..writer import only_writer
from .encryption import MAGIC, EncryptedReader, EncryptedWriter

MADE_AGAIN = ("received", "feedback", "export", ".staged", ".writer")
"""What a backup leaves out: grading and `feedback` make it again."""
_DATABASE = "gradebook.db"
_BESIDE_DATABASE = (f"{_DATABASE}-journal", f"{_DATABASE}-wal", f"{_DATABASE}-shm")


@dataclass(frozen=True)
class Backup:
    """What a backup holds: how many files of how many bytes, and what was left out because it is not a file."""

    files: int
    size: int
    left_out: list[str]


def back_up(course: Course, to: Path, passphrase: str | None = None) -> Backup:
    """Write the course into one new file, whole or not at all; encrypted with a passphrase.

    Nothing else writes meanwhile. Only the owner may read the file.

    Raises CourseError when the file exists already or lies in the course's folder, or when another command is writing.
    """
    if to.exists():
        raise CourseError(f"{to} exists already: name a new file. Nothing was written.")
    if to.resolve().is_relative_to(course.root.resolve()):
        raise CourseError(f"{to} lies in the course's own folder: a copy belongs elsewhere. Nothing was written.")
    with only_writer(course, "backup"), ExitStack() as stack:
        descriptor, part = open_part(to.parent)
        stack.callback(part.unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb") as file:
            result = _write(course, file, passphrase)
            file.flush()
            os.fsync(file.fileno())
        part.rename(to)
        return result


def _write(course: Course, file: IO[bytes], passphrase: str | None) -> Backup:
    target: Any = EncryptedWriter(file, passphrase) if passphrase else file
    count, size, left_out = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / _DATABASE
        if course.database.is_file():
            # A copy that SQLite makes is whole, whoever reads the database meanwhile.
            with closing(sqlite3.connect(course.database)) as source, closing(sqlite3.connect(database)) as copy:
                source.backup(copy)
        with (
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=target, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in _kept(course):
                name = path.relative_to(course.root).as_posix()
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    left_out.append(name)
                    continue
                archive.add(database if name == _DATABASE else path, name, recursive=False)
                if path.is_file():
                    count, size = count + 1, size + path.stat().st_size
    if passphrase:
        target.close()
    return Backup(count, size, left_out)


def _kept(course: Course) -> Iterator[Path]:
    for top in sorted(course.root.iterdir()):
        if top.name in (*MADE_AGAIN, *_BESIDE_DATABASE):
            continue
        below = sorted(top.rglob("*")) if top.is_dir() and not top.is_symlink() else []
        yield from (path for path in [top, *below] if not is_part(path.name))


def restore(file: Path, course: Course, passphrase: str | None = None) -> int:
    """Make the course's folder from a backup; returns how many files it has.

    The folder appears when everything in it is there. Times and permissions are those of the files that were copied.

    Raises CourseError when the folder is there already and not empty, when the file is not a backup, when it is
    encrypted and there is no passphrase, or when it was damaged.
    """
    if course.root.exists() and (not course.root.is_dir() or any(course.root.iterdir())):
        raise CourseError(
            f"{course.root} is there already: restore into a new folder, --course DIR. Nothing was written."
        )
    try:
        source = file.open("rb")
    except FileNotFoundError:
        raise CourseError(f"{file} does not exist") from None
    course.root.parent.mkdir(parents=True, exist_ok=True)
    with source, tempfile.TemporaryDirectory(dir=course.root.parent, prefix=".restored-") as folder:
        encrypted = source.read(len(MAGIC)) == MAGIC
        source.seek(0)
        if encrypted and not passphrase:
            raise CourseError(f"{file} is encrypted: add --passphrase. Nothing was restored.")
        stream: Any = io.BufferedReader(EncryptedReader(source, str(passphrase))) if encrypted else source
        restored = Path(folder) / "course"
        try:
            count = _extract(stream, restored)
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise CourseError(f"{file} is no backup, or damaged ({error}). Nothing was restored.") from None
        if course.root.exists():
            course.root.rmdir()
        shutil.move(restored, course.root)
        return count


def _extract(stream: Any, to: Path) -> int:
    to.mkdir()
    count = 0
    folders = []
    with gzip.GzipFile(fileobj=stream) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        for entry in archive:
            parts = PurePosixPath(entry.name).parts
            if ".." in parts or entry.name.startswith("/") or not (entry.isfile() or entry.isdir()):
                raise tarfile.TarError(f"{entry.name} is not a file of a course")
            path = to.joinpath(*parts)
            if entry.isdir():
                path.mkdir(parents=True, exist_ok=True)
                folders.append((path, entry))
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(entry)
            assert content is not None
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
            _set(path, entry)
            count += 1
        # To the end, where the checksum is.
        while packed.read(1 << 20):
            pass
    # Last: writing a file into a folder changes the folder's time.
    for path, entry in reversed(folders):
        _set(path, entry)
    if not (to / "secret").is_file():
        raise tarfile.TarError("it holds no course's secret")
    return count


def _set(path: Path, entry: tarfile.TarInfo) -> None:
    path.chmod(entry.mode & 0o777)
    # When a file was received decides what a stated time of handing in is worth.
    os.utime(path, (entry.mtime, entry.mtime))
