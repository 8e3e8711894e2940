"""A folder as a zip archive, which students may be downloading while it is written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..files import write_bytes_atomically


def write_archive(folder: Path, archive: Path) -> None:
    """Pack `folder` under its name into `archive`, which is the old one until the new one is whole."""
    with tempfile.TemporaryDirectory(prefix="lecture-archive-") as place:
        packed = shutil.make_archive(f"{place}/packed", "zip", folder.parent, folder.name)
        write_bytes_atomically(archive, Path(packed).read_bytes())
