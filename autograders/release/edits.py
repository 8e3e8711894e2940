"""Replaces the student's folder and its archive, and keeps what somebody changed there (whoever learns in it)."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from datetime import datetime
from pathlib import Path

from .archive import write_archive

_OF_PROGRAMS = frozenset({"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".venv", ".git"})
"""Folders whose files are not written by people."""


def replace_folder(new: Path, folder: Path, archive: Path) -> None:
    """Put `new` where the student's `folder` is, and its content into `archive`; edits in the folder are kept.

    Killed in between, the same call does the rest, and nothing that somebody wrote is lost.
    """
    staged, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)  # a call that was killed between its two steps: the only copy, and it may hold edits
    for edits in (old, folder):
        keep_edits(edits, archive)
    for leftover in (staged, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(new, staged)
    # Before the folder: an old folder differs from a new archive, so that edits in it are kept the next time as well.
    write_archive(new, archive)
    # In two steps: a folder cannot be renamed to the name of one that holds files.
    if folder.exists():
        folder.rename(old)
    staged.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def keep_edits(folder: Path, archive: Path) -> Path | None:
    """Copy the files that differ from the archive of what was released; None when there are none.

    Returns the folder `edited-TIME` beside the student's one that they lie in, under the names that they had.
    """
    edits = edited(folder, archive)
    if not edits:
        return None
    kept = folder.with_name(f"edited-{datetime.now():%Y%m%d-%H%M%S-%f}")
    for path in edits:
        (kept / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / path, kept / path)
    return kept


def edited(folder: Path, archive: Path) -> list[Path]:
    """The files of a student's folder, relative to it, that the archive has otherwise.

    All of them where there is no archive or none that can be read: then nobody knows what was changed.
    """
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    own = [path for path in files if not _OF_PROGRAMS.intersection(path.parts) and path.suffix != ".pyc"]
    released = _contents(archive)
    return [path for path in own if released.get(path) != (folder / path).read_bytes()]


def _contents(archive: Path) -> dict[Path, bytes]:
    """What is in an archive, by the place in its folder; nothing where it cannot be read."""
    try:
        with zipfile.ZipFile(archive) as released:
            names = [name for name in released.namelist() if not name.endswith("/")]
            return {Path(*Path(name).parts[1:]): released.read(name) for name in names}
    except (OSError, zipfile.BadZipFile, zlib.error):
        return {}
