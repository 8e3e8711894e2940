"""The course's secret and what is drawn from it: hidden inputs that nobody can know before the notebook runs."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_text_atomically

if TYPE_CHECKING:
    import numpy as np

POOL = 8
"""How many sets of hidden inputs a question has for one assignment version. Judges can keep their results for each."""


Substitutes = Mapping[str, Mapping[str, Mapping[int, int]]]
"""Assignment version -> question -> set of the pool -> the set that takes its place in this course."""


class SecretError(RuntimeError):
    """The course's secret is missing or unreadable."""


def new_secret() -> bytes:
    """A secret that nobody knows: 32 random bytes."""
    return secrets.token_bytes(32)


def create_secret(path: Path, secret: bytes | None = None) -> bytes:
    """Return the secret in `path`, written on first use (default: a new one), readable by the owner only."""
    try:
        # In one call: of two releases at a time one creates it, and nobody else can read it, not even for a moment.
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return read_secret(path)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write((secret or new_secret()).hex() + "\n")
    return read_secret(path)


def read_secret(path: Path) -> bytes:
    """Return the secret in `path`. Raises SecretError with the remedy when there is none or it is damaged."""
    try:
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError:
        raise SecretError(
            f"{path}: no secret. Run `autograde release` first, or put the course's secret back."
        ) from None
    except ValueError:
        raise SecretError(f"{path}: not a secret (64 hexadecimal digits). Put the course's secret back.") from None
    if len(secret) < 32:
        raise SecretError(f"{path}: {len(secret)} bytes, 32 are needed. Put the course's secret back.")
    return secret


def pool_index(secret: bytes, submission_digest: str) -> int:
    """Which set of the pool a submission gets: fixed by its content, so that a regrade repeats it."""
    return int.from_bytes(_mac(secret, "pool", submission_digest)[:8], "big") % POOL


class CourseSets:
    """The sets of hidden inputs that a course uses: the pool's, with others for those on which a grader erred.

    Args:
        root: the course's folder, with the file `secret`, and `sets.json` where a release replaced a set.

    Raises SecretError when one of the two is damaged or cannot be read.

    """

    def __init__(self, root: Path) -> None:
        self.secret = read_secret(root / "secret")
        self.substitutes = read_substitutes(root)

    def seed(self, question_id: str, version: str, pool: int) -> tuple[bytes, str, int]:
        """Secret, version and index from which a question's cases are drawn for this set of the pool."""
        return self.secret, version, self.substitutes.get(version, {}).get(question_id, {}).get(pool, pool)


def read_substitutes(root: Path) -> dict[str, dict[str, dict[int, int]]]:
    """The sets that a course's releases replaced. Raises SecretError when the list is damaged or cannot be read."""
    path = root / "sets.json"
    try:
        content = json.loads(path.read_text("utf-8"))
        return {
            version: {question: _checked(replaced) for question, replaced in questions.items()}
            for version, questions in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SecretError(f"{path} cannot be read ({error}). Put a copy of it back.") from None


def _checked(replaced: Mapping[str, object]) -> dict[int, int]:
    checked = {
        int(index): number
        for index, number in replaced.items()
        if int(index) in range(POOL) and type(number) is int and number in range(POOL, 2 * POOL)
    }
    if len(checked) < len(replaced) or len(set(checked.values())) < len(checked):
        raise ValueError(f"no list of replaced sets: {dict(replaced)}")
    return checked


def add_substitutes(root: Path, substitutes: Substitutes) -> None:
    """Write what a release replaced, beside what earlier ones did."""
    merged = read_substitutes(root)
    for version, questions in substitutes.items():
        for question, replaced in questions.items():
            merged.setdefault(version, {}).setdefault(question, {}).update(replaced)
    if merged:
        write_text_atomically(root / "sets.json", json.dumps(merged, indent=1) + "\n")


def generator(secret: bytes, version: str, question_id: str, index: int) -> np.random.Generator:
    """The random stream from which a question's hidden inputs are drawn.

    Source: HMAC-SHA256 over (assignment version, question, index in the pool), keyed by the course's secret.
    """
    from numpy.random import default_rng

    return default_rng(int.from_bytes(_mac(secret, "inputs", version, question_id, str(index)), "big"))


def choice(secret: bytes, question_id: str, count: int) -> int:
    """Which of `count` variants of a question a course gets: the same for every student and every release."""
    return int.from_bytes(_mac(secret, "variant", question_id)[:8], "big") % count


def _mac(secret: bytes, *fields: str) -> bytes:
    # A separator that no field holds: ("03a", "1") and ("03", "a1") must not draw the same.
    return hmac.new(secret, "\x1f".join(fields).encode("utf-8"), hashlib.sha256).digest()
