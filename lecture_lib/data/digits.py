"""The embedded digits: real images, no download, verified before they are read."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

REMEDY = (
    "Restore digits.npz and digits.json together: unpack the course's bundle again, or run `git checkout -- assets` "
    "in a checkout."
)
INK_LEVELS = 16  # a pixel counts the dark dots of a 4x4 block


class DamagedDataError(ValueError):
    """A stored data file is not the one that the course was built with."""


@dataclass(frozen=True)
class Digits:
    """Images of handwritten digits and what they show.

    Attributes:
        images: float32 [1797, 1, 8, 8], ink from 0 (none) to 1 (full).
        labels: int64 [1797], the digit 0..9.
        data_id: name and checksum of the file that was read, for the record of a run.

    """

    images: Tensor
    labels: Tensor
    data_id: str


def load_digits(path: str | Path | None = None) -> Digits:
    """Read the 1,797 optical digits that ship with the course.

    Source: UCI Optical Recognition of Handwritten Digits, test part, https://doi.org/10.24432/C50P49 (CC BY
    4.0).

    Args:
        path: the .npz file, with its .json description beside it; default: the copy that ships with lecture_lib.

    Returns:
        The images and labels, and the id of the file.

    Raises:
        DamagedDataError: the file is not the described one.
        FileNotFoundError: a file is missing.

    """
    file = _shipped_file() if path is None else Path(path)
    content = _read(file)
    checksum = _verify(file, content, _read_description(file.with_suffix(".json")))
    # What was verified is what is read: the file is not opened a second time.
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        pixels, labels = arrays["images"], arrays["labels"]
    return Digits(
        images=torch.from_numpy(pixels).unsqueeze(1).to(torch.float32) / INK_LEVELS,
        labels=torch.from_numpy(labels).to(torch.int64),
        data_id=f"{file.stem}-{checksum[:12]}",
    )


def _shipped_file() -> Path:
    """The file inside an installed wheel, else the one beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "assets" / "digits.npz", package.parent / "assets" / "digits.npz"]
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(f"no digits.npz at {places[0]} nor at {places[1]}. {REMEDY}")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing. {REMEDY}") from None


def _read_description(file: Path) -> dict[str, Any]:
    try:
        description = json.loads(_read(file))
        return {"sha256": str(description["sha256"]), "bytes": int(description["bytes"])}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedDataError(
            f"{file} does not give the data file's sha256 and bytes ({type(error).__name__}: {error}). {REMEDY}"
        ) from None


def _verify(file: Path, content: bytes, description: dict[str, Any]) -> str:
    """The checksum of the content, when it is the described one."""
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != description["sha256"]:
        raise DamagedDataError(
            f"{file} is not the file that the course was built with: {len(content)} bytes with sha256 "
            f"{checksum}, expected {description['bytes']} bytes with sha256 {description['sha256']}. "
            f"{REMEDY}"
        )
    return checksum
