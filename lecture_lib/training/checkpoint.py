"""Checkpoints: written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def save_atomically(obj: Any, path: str | Path) -> None:
    """Save with torch.save so that `path` holds either its previous content or all of the new one.

    Source: lecture part 3, save and load; rename(2) replaces a file in one step.

    Args:
        obj: what to save; tensors in dicts, lists and tuples (a state_dict) load with weights_only=True.
        path: the file; its folder must exist.

    Raises:
        FileNotFoundError: the folder does not exist. Any error while writing leaves `path` as it was.

    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save {path}: the folder {path.parent} does not exist. Make it first.")
    # In the same folder, because a file can be moved in one step only within its file system. The process id
    # keeps two processes from writing into one file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(obj, file)
            file.flush()
            # Without it a power cut after the move can leave an empty file under the final name.
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
