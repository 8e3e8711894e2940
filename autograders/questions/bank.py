"""The bank of answers: for every question right answers written differently, and wrong ones with a declared verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HEADER = re.compile(r"^# (points|misconception|about): (.*)$")


class BankError(ValueError):
    """An answer of the bank does not declare what it should be worth."""


@dataclass(frozen=True)
class Answer:
    """One answer: the source of the solution cell, its declared points and misconception id (None for right ones)."""

    name: str
    source: str
    points: float
    misconception: str | None
    about: str


def read_answers(folder: Path) -> list[Answer]:
    """Read a question's answers, `right_*` before `wrong_*`. Raises BankError when one does not say its worth."""
    return [_read(path) for path in sorted([*folder.glob("*.py"), *folder.glob("*.md")])]


def _read(path: Path) -> Answer:
    lines = path.read_text("utf-8").splitlines()
    fields: dict[str, str] = {}
    while lines and (match := _HEADER.match(lines[0])):
        fields[match[1]] = match[2].strip()
        lines.pop(0)
    source = "\n".join(lines).strip("\n")
    if "points" not in fields or not source:
        raise BankError(f"{path}: an answer starts with '# points: N' (and '# misconception: id' if wrong), then code")
    misconception = fields.get("misconception")
    if path.name.startswith("wrong") and path.suffix == ".py" and misconception is None:
        raise BankError(f"{path}: a wrong answer declares its misconception ('# misconception: none' if it has none)")
    return Answer(
        path.stem,
        source,
        float(fields["points"]),
        None if misconception in (None, "none") else misconception,
        fields.get("about", ""),
    )
