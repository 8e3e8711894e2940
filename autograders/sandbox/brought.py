"""What a submission brings besides its notebook: copied for the kernel, regular files only, and not too many."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_FILES, MOST_BYTES = 200, 20_000_000


def remove_followed_links(submission: Path, graded: Path) -> None:
    """Remove what nbgrader's own command has copied through links: it would end up in the student's feedback folder."""
    for folder, _, names in os.walk(submission):
        for path in (Path(folder) / name for name in names):
            if path.is_symlink():
                (graded / path.relative_to(submission)).unlink(missing_ok=True)


def copy_files(submission: Path, to: Path) -> list[str]:
    """Copy the regular files below `submission` into `to`, notebooks left out. Returns notes on what was not copied.

    Links are not followed: they could lead to the secret or to another submission. Pipes and devices would hang.
    """
    to.mkdir()
    notes, count, size = [], 0, 0
    for folder, folders, names in os.walk(submission):
        folders.sort()
        inside = Path(folder)
        for name in [*folders, *sorted(names)]:
            path = inside / name
            where = path.relative_to(submission)
            try:
                found = path.lstat()
                if stat.S_ISDIR(found.st_mode) or name.lower().endswith(".ipynb"):
                    continue
                if not stat.S_ISREG(found.st_mode):
                    notes.append(f"{where} was left out: not a regular file")
                    continue
                count, size = count + 1, size + found.st_size
                if count > MOST_FILES or size > MOST_BYTES:
                    notes.append(f"files were left out: more than {MOST_FILES}, or {MOST_BYTES // 10**6} MB together")
                    return notes
                (to / where).parent.mkdir(parents=True, exist_ok=True)
                (to / where).write_bytes(path.read_bytes())
                (to / where).chmod(0o644)
            except OSError as error:
                notes.append(f"{where} was left out: {error.strerror}")
    return notes
