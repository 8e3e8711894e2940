"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PART = ".part"
"""The ending of a file that is being written. One that is left over is of a process that was killed."""


def write_text_atomically(path: Path, text: str) -> None:
    r"""Write `text` to `path` as UTF-8, whole or not at all.

    Half a character, which UTF-8 cannot hold, is written as its escape (`\udcdc`); in JSON that means the same.
    """
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path`: a reader, also after a crash, sees the old content or the new, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=PART)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Before the file gets its name: after a power cut there would otherwise be the name and no content.
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 - mkstemp made it 0600
        os.replace(temporary, path)  # noqa: PTH105 - the atomic one
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_half_written(folder: Path) -> None:
    """Remove what killed processes left half written under `folder`. Call it only while nobody writes there."""
    for path in folder.rglob(f".*{PART}"):
        path.unlink(missing_ok=True)
