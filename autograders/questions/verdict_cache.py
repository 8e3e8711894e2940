"""Verdicts on the bank's answers, kept between runs: the same answer, code and hidden inputs give the same verdict."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import platform
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from ..setting import DESCRIPTIONS, PUBLIC_HALVES, ROOT, SHIPPED_PACKAGES

CACHE = ROOT / "build" / "verdicts.sqlite"
_MOST_ROWS = 300_000  # about 60 MB; the oldest are dropped
_BUSY_SECONDS = 60
_QUESTION_FOLDERS = (PUBLIC_HALVES, DESCRIPTIONS)
_SHARED = ("autograders/probes", *SHIPPED_PACKAGES)
_PARSING = threading.Lock()
"""Python 3.11 counts the depth of a syntax tree for all threads together: two that parse at once may fail."""


class Result(NamedTuple):
    """The part of a verdict that an answer declares, and what went wrong while it was observed."""

    points: float
    misconception: str | None
    incident: str | None


class VerdictCache:
    """Results by key in one SQLite file that several processes may use; without a file it remembers nothing."""

    def __init__(self, path: Path | None = CACHE) -> None:
        self._path = path

    def read(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results that are known for some of `keys`."""
        results: dict[str, Result] = {}
        with self._open() as database:
            if database is None:
                return results
            for key in keys:
                row = database.execute("SELECT points, misconception, incident FROM results WHERE key = ?", [key])
                if (values := row.fetchone()) is not None:
                    results[key] = Result(*values)
        return results

    def write(self, results: dict[str, Result]) -> None:
        """Keep results."""
        with self._open() as database:
            if database is not None:
                rows = [(key, *result) for key, result in results.items()]
                database.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", rows)
                # A replaced row gets a new rowid too, so the rows with the lowest ones are those written longest ago.
                oldest = "(SELECT max(rowid) FROM results) - ?"
                database.execute(f"DELETE FROM results WHERE rowid <= {oldest}", [_MOST_ROWS])

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        if self._path is None:
            yield None
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        columns = "key TEXT UNIQUE, points REAL, misconception TEXT, incident TEXT"
        with contextlib.closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database, database:
            database.execute(f"CREATE TABLE IF NOT EXISTS results ({columns})")
            yield database


def result_key(judge: Path, question: str, sources: Iterable[str], secret: bytes, drawn_from: str, index: int) -> str:
    """What a result depends on, as one digest: the answer, everything that runs, and the set of hidden inputs."""
    fields = [code_digest(judge, question), *sources, secret.hex(), drawn_from, str(index)]
    return hashlib.sha256("\x1f".join(fields).encode()).hexdigest()


@functools.cache
def code_digest(judge: Path, question: str) -> str:
    """A digest of the code behind a question: its judge, its public half, the library and the packages' versions.

    Other questions are left out, so that a change of one leaves what is known about the others.
    """
    digest = hashlib.sha256(_shared_digest().encode())
    for path in sorted(_reached([judge, *_public_files(question)])):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _shared_digest() -> str:
    versions = [f"{name} {version(name)}" for name in ("torch", "numpy", "scipy", "scikit-learn")]
    digest = hashlib.sha256(json.dumps([platform.python_version(), platform.machine(), *versions]).encode())
    files = [path for folder in _SHARED for path in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "autograders/questions").glob("*.py")
    for path in sorted(path for path in files if not any(path.is_relative_to(folder) for folder in _QUESTION_FOLDERS)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _public_files(question: str) -> list[Path]:
    """The modules that describe a question, by its id in their text."""
    return [path for path in PUBLIC_HALVES.glob("*.py") if f'"{question}"' in path.read_text("utf-8")]


def _reached(start: Iterable[Path]) -> set[Path]:
    """Files of the questions' folders that `start` imports, directly or through each other, and `start` itself."""
    waiting, reached = list(start), set[Path]()
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        with _PARSING:
            tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                # By the last name alone: a file too many only costs time, one too few would keep a stale verdict.
                names = {(node.module or "").split(".")[-1], *(alias.name for alias in node.names)}
                beside = [folder / f"{name}.py" for folder in _QUESTION_FOLDERS for name in names]
                waiting += [file for file in beside if file.is_file()]
    return reached
