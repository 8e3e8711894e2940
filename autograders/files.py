"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import zlib
from pathlib import Path

from lecture_lib._common.system import is_running

_PART = re.compile(r"\.\w{8}\.([0-9a-f]{8})\.(\d+)\.autograde-part")
"""The name of a file that is being written: random signs, the machine and the process. Nobody hands in such a name."""


def write_text_atomically(path: Path, text: str) -> None:
    r"""Write `text` to `path` as UTF-8, whole or not at all.

    Half a character, which UTF-8 cannot hold, is written as its escape (`\udcdc`); in JSON that means the same.
    """
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path`: a reader, also after a crash, sees the old content or the new, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = open_part(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Before the file gets its name: after a power cut there would otherwise be the name and no content.
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp made it 0600
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_part(folder: Path) -> tuple[int, Path]:
    """A new file in `folder` for what becomes a file when it is whole: the descriptor and the path."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=f".{_machine()}.{os.getpid()}.autograde-part")
    return descriptor, Path(name)


def is_part(name: str) -> bool:
    """Whether a file of this name was never finished, or is being written."""
    return _PART.fullmatch(name) is not None


def remove_half_written(folder: Path) -> None:
    """Remove what processes of this machine that are dead left half written under `folder`.

    Others may be writing there meanwhile, on this machine or on another that shares the folder.
    """
    for place, _, names in os.walk(folder):
        for name in names:
            part = _PART.fullmatch(name)
            if part is not None and part[1] == _machine() and not is_running(int(part[2])):
                Path(place, name).unlink(missing_ok=True)


def _machine() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"
