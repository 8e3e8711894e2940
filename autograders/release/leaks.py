"""Finds solutions, judges, answers and outputs of the master in what would ship, by content and not by markers.

Two texts share content when they share a run of tokens. Tokens are what is left of a text without comments, white
space, quotes and letter case, so that a copy is found when it was reformatted, commented or put into a string, a JSON
file or a Markdown cell.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = 14
"""A shared run of this many tokens is a leak, unless lecture_lib, the prose or an answer's stub has the run too."""
WHOLE = 0.5
"""A file that holds this share of a secret's runs is a leak wherever else they are, in lecture_lib too."""

_SHORTEST = RUN // 2
"""A text of fewer tokens has no run."""

_TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[^\w\s\"'`#]")
_COMMENT = re.compile(r"#[^\n]*")
_TEXT = {
    ".py",
    ".md",
    ".txt",
    ".toml",
    ".yml",
    ".yaml",
    ".json",
    ".ipynb",
    ".cfg",
    ".csv",
    ".svg",
    ".html",
    ".sh",
    "",
}


@dataclass(frozen=True)
class Secret:
    """A text that must not ship, and what it is called in a report."""

    name: str
    text: str
    written_by_code: bool = False
    """An output: shipped code that prints it holds parts of its text, which is no leak."""


@dataclass(frozen=True)
class Leak:
    """Where a secret was found, and the shared tokens."""

    where: str
    secret: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.where} holds content of {self.secret}: {self.excerpt}"


def tokens(text: str, *, comments: bool = False) -> tuple[str, ...]:
    """The normalised tokens of a text, program or prose; without `comments`, what is behind a # is left out."""
    return tuple(map(str.lower, _TOKEN.findall(text if comments else _COMMENT.sub(" ", text))))


def runs(sequence: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Every run of RUN tokens. A text that is a little shorter is one run by itself."""
    if _SHORTEST <= len(sequence) < RUN:
        return {sequence}
    return {sequence[start : start + RUN] for start in range(len(sequence) - RUN + 1)}


class KnownRuns:
    """A set of runs that is quickly looked for in texts: hardly any place of a text begins as one of them does."""

    def __init__(self, known_runs: Iterable[tuple[str, ...]]) -> None:
        self._runs = set(known_runs)
        self._starts = {run[:_SHORTEST] for run in self._runs}
        self._lengths = sorted({len(run) for run in self._runs})

    def anywhere(self, sequence: tuple[str, ...]) -> set[tuple[str, ...]]:
        """The known runs that are somewhere in a text of these tokens."""
        return {
            run
            for start in range(len(sequence) - _SHORTEST + 1)
            if sequence[start : start + _SHORTEST] in self._starts
            for length in self._lengths
            if (run := sequence[start : start + length]) in self._runs
        }

    def among_the_runs(self, texts: Iterable[str]) -> set[tuple[str, ...]]:
        """The known runs that are runs of one of these texts, with or without its comments."""
        return {
            run
            for text in texts
            for sequence in {tokens(text), tokens(text, comments=True)}
            for run in self.anywhere(sequence)
            if len(run) == RUN or run == sequence
        }


class LeakCheck:
    """Knows what must not ship, and searches files for it."""

    def __init__(
        self, secrets: Iterable[Secret], allowed: Iterable[str], code: Iterable[str] = (), stubs: Iterable[str] = ()
    ) -> None:
        """Args: what must not ship; texts whose runs are no secret (lecture_lib, prose); notebooks' code; stubs.

        A stub is in every answer to its question, and most of a short one.
        """
        whole = {secret: runs(tokens(_without_imports(secret.text))) for secret in secrets}
        all_known = KnownRuns(run for all_runs in whole.values() for run in all_runs)
        in_stubs = all_known.among_the_runs(stubs)
        common = all_known.among_the_runs(allowed) | in_stubs
        printed = common | all_known.among_the_runs(code)
        self._whole = {secret: all_runs - in_stubs for secret, all_runs in whole.items()}
        self._own = {
            run: secret
            for secret, all_runs in self._whole.items()
            for run in all_runs - (printed if secret.written_by_code else common)
        }
        self._holders: dict[tuple[str, ...], list[Secret]] = {}
        for secret, all_runs in self._whole.items():
            # Runs that allowed texts share count here: each is harmless by itself, most of a secret's together are not.
            for run in () if secret.written_by_code else all_runs:
                self._holders.setdefault(run, []).append(secret)
        self._searched = KnownRuns([*self._own, *self._holders])

    def search(self, where: str, text: str) -> list[Leak]:
        """The secrets whose content `text` holds, one leak for each."""
        leaks: dict[Secret, Leak] = {}
        # Both ways: a secret may be in a comment, or have comments between its lines.
        for sequence in {tokens(text), tokens(text, comments=True)}:
            present = self._searched.anywhere(sequence)
            for run in present & self._own.keys():
                leaks.setdefault(self._own[run], Leak(where, self._own[run].name, " ".join(run)))
            shared: dict[Secret, list[tuple[str, ...]]] = {}
            for run in present & self._holders.keys():
                for secret in self._holders[run]:
                    shared.setdefault(secret, []).append(run)
            for secret, its in shared.items():
                if len(its) > WHOLE * len(self._whole[secret]):
                    leaks.setdefault(secret, Leak(where, secret.name, " ".join(min(its))))
        return list(leaks.values())

    def search_folder(self, folder: Path) -> list[Leak]:
        """Search every file below `folder`: texts, notebooks cell by cell, archives member by member."""
        leaks: list[Leak] = []
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                for where, text in texts_of(str(path.relative_to(folder)), path.read_bytes()):
                    leaks += self.search(where, text)
        return leaks


def _without_imports(text: str) -> str:
    """Imports are common to all programs; they would make every two of them share content."""
    return "\n".join(line for line in text.splitlines() if not re.match(r"\s*(import|from)\s", line))


def texts_of(name: str, content: bytes) -> Iterator[tuple[str, str]]:
    """The texts in a file, with where they are: as written, as decoded data, and in an archive's members."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from texts_of(f"{name}:{member}", archive.read(member))
        return
    # Passed over only where name and content say that it is no text.
    if Path(name).suffix.lower() not in _TEXT and b"\0" in content:
        return
    text = content.decode("utf-8", errors="replace")
    yield name, text
    try:
        data = json.loads(text)
    except ValueError:
        return
    # Escapes hide content from a plain reading; in a notebook, a source is a list of lines.
    yield f"{name} (as data)", "\n".join(_strings(data))


def _strings(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        lines = [item for item in data if isinstance(item, str)]
        if lines and len(lines) == len(data):
            yield "".join(line if line.endswith("\n") else line + "\n" for line in lines)
        else:
            for item in data:
                yield from _strings(item)
    elif isinstance(data, dict):
        for item in data.values():
            yield from _strings(item)
