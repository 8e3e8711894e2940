"""Write the embedded digits, or check that the stored files are what this script writes.

    python assets/make_digits.py            writes assets/digits.npz and assets/digits.json
    python assets/make_digits.py --check    exits 1, with the reason, when a stored file differs

The images come from scikit-learn's own copy (no download). `np.savez` stores members uncompressed and with a
fixed date, so the same arrays give the same bytes on any POSIX machine.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

FOLDER = Path(__file__).resolve().parent
DESCRIPTION = (
    "1,797 images of handwritten digits by 13 writers, 8x8 pixels of 0 to 16 (ink counted in 4x4 blocks of "
    "a 32x32 bitmap), with labels 0 to 9. The pixels are unchanged; only their type is (uint8)."
)


def digits_npz() -> bytes:
    """The archive's bytes: `images` uint8 [1797, 8, 8] in 0..16 and `labels` uint8 [1797] in 0..9."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    # A later scikit-learn might scale the pixels: a cast to uint8 would then lose them without a word.
    if images.shape != (1797, 8, 8) or not np.array_equal(images, digits.images) or images.max() != 16:
        raise ValueError(
            f"scikit-learn's digits are {digits.images.shape} up to {digits.images.max()}; expected (1797, "
            "8, 8) whole numbers up to 16. Use a scikit-learn that carries the original data."
        )
    archive = io.BytesIO()
    np.savez(archive, images=images, labels=digits.target.astype(np.uint8))
    return archive.getvalue()


def digits_json(npz: bytes) -> bytes:
    """The description that belongs to these archive bytes, checksum included."""
    description = {
        "title": "Optical Recognition of Handwritten Digits (test part)",
        "source": "UCI Machine Learning Repository, E. Alpaydin and C. Kaynak (1998), "
        "https://doi.org/10.24432/C50P49, test part, as carried by scikit-learn's load_digits",
        "licence": "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)",
        "licence_note": "The licence is the UCI repository's; scikit-learn's description names the source "
        "and no licence of the data, and scikit-learn itself is distributed under BSD-3-Clause.",
        "description": DESCRIPTION,
        "count": 1797,
        "bytes": len(npz),
        "sha256": hashlib.sha256(npz).hexdigest(),
    }
    return (json.dumps(description, indent=2) + "\n").encode()


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    parser = argparse.ArgumentParser(description="Write or check the embedded digits.")
    parser.add_argument("--check", action="store_true", help="compare the stored files, write nothing")
    check = parser.parse_args(arguments).check
    npz = digits_npz()
    status = 0
    for name, content in {"digits.npz": npz, "digits.json": digits_json(npz)}.items():
        file = folder / name
        if not check:
            file.write_bytes(content)
            print(f"wrote {file} ({len(content)} bytes)")
        elif not file.exists():
            print(f"{file} is missing. Run: python assets/make_digits.py", file=sys.stderr)
            status = 1
        elif file.read_bytes() != content:
            print(
                f"{file} ({file.stat().st_size} bytes) differs from what this script writes ({len(content)} "
                "bytes). Restore it from git, or run: python assets/make_digits.py",
                file=sys.stderr,
            )
            status = 1
    if check and status == 0:
        print("digits.npz and digits.json are what this script writes")
    return status


if __name__ == "__main__":
    sys.exit(main())
