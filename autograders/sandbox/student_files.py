"""What a submission brings besides its notebook: copied for the kernel, regular files only, and not too many."""

from __future__ import annotations

import os
from pathlib import Path

from ..intake.reading.archives import RefusedArchive, entries, read_file
from ..plain_text import plain

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
    for entry in entries(submission):
        if entry.problem is not None:
            notes.append(f"{plain(entry.name)}: {entry.problem}")
            continue
        if entry.name.lower().endswith(".ipynb"):
            continue
        try:
            content = read_file(submission / entry.name)
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > MOST_BYTES:
                notes.append(f"files were left out: more than {MOST_FILES}, or {MOST_BYTES // 10**6} MB together")
                return notes
            (to / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (to / entry.name).write_bytes(content)
            # The kernel runs as a user who owns nothing.
            (to / entry.name).chmod(0o644)
        except (OSError, RefusedArchive) as error:
            notes.append(f"{plain(entry.name)} was left out: {plain(str(error))}")
    return notes
