"""Keeps what somebody changed in the student's folder, such as whoever learns in it, before a release replaces it."""

from __future__ import annotations

import shutil
import zipfile
from datetime import datetime
from pathlib import Path

_OF_PROGRAMS = frozenset({"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".venv", ".git"})
"""Folders whose files are not written by people."""


def keep_edits(folder: Path, archive: Path) -> Path | None:
    """Copy the files that differ from the archive of what was released; None when there are none.

    Returns the folder `edited-TIME` beside the student's one that they lie in, under the names that they had.
    """
    edits = edited(folder, archive)
    if not edits:
        return None
    kept = folder.with_name(f"edited-{datetime.now():%Y%m%d-%H%M%S}")
    for path in edits:
        (kept / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / path, kept / path)
    return kept


def edited(folder: Path, archive: Path) -> list[Path]:
    """The files of a student's folder, relative to it, that the archive has otherwise; none without an archive."""
    if not folder.is_dir() or not zipfile.is_zipfile(archive):
        return []
    with zipfile.ZipFile(archive) as released:
        contents = {Path(*Path(name).parts[1:]): released.read(name) for name in released.namelist() if name[-1] != "/"}
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    own = [path for path in files if not _OF_PROGRAMS.intersection(path.parts) and path.suffix != ".pyc"]
    return [path for path in own if contents.get(path) != (folder / path).read_bytes()]
