"""The answer bank: for every question right answers written differently, and wrong ones with a declared verdict.

A question's answers are one Markdown file. Each answer is a heading with its name, a list with `points`,
`misconception` and `about`, and a block of code. An answer that differs little from another one says `edit of: NAME`
and holds diffs. In the answers to a question with variants, {{NAME}} stands for words of the variant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FIELD = re.compile(r"^- (points|misconception|about|edit of): (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class BankError(ValueError):
    """An answer of the bank is not in its form. The message names file, answer and remedy."""


@dataclass(frozen=True)
class Answer:
    """One answer: the source of the solution cell, its declared points and misconception id (None for right ones)."""

    name: str
    source: str
    points: float
    misconception: str | None
    about: str


def read_answers(path: Path, words: Mapping[str, str] | None = None) -> list[Answer]:
    """A question's answers, in the order of its file. Raises BankError for one that is not in the form.

    `words` are those of a variant of the question.
    """
    text = path.read_text("utf-8")
    for word, meaning in (words or {}).items():
        text = text.replace(f"{{{{{word}}}}}", meaning)
    if words and (unknown := re.search(r"\{\{[^{}\n]+\}\}", text)):
        raise BankError(f"{path.name}: the variant has no words for {unknown[0]}; it has {', '.join(words)}")
    answers: dict[str, Answer] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        try:
            if name in answers:
                raise BankError("there are two answers of this name")
            answers[name] = _read(name, body, answers)
        except BankError as error:
            raise BankError(f"{path.name}, answer {name}: {error}") from None
    return list(answers.values())


def _read(name: str, body: str, before: Mapping[str, Answer]) -> Answer:
    fields = dict(_FIELD.findall(_BLOCK.sub("", body)))
    blocks = _BLOCK.findall(body)
    if "points" not in fields or not blocks:
        raise BankError("an answer has a line '- points: N' and a block of code")
    if name.startswith("wrong") and "misconception" not in fields:
        raise BankError("a wrong answer has a line '- misconception: ID' ('none' if it has none)")
    misconception = fields.get("misconception", "none")
    return Answer(
        name,
        _source(blocks, fields.get("edit of"), before),
        float(fields["points"]),
        None if misconception == "none" else misconception,
        fields.get("about", ""),
    )


def _source(blocks: list[tuple[str, str]], base: str | None, before: Mapping[str, Answer]) -> str:
    if base is None:
        if len(blocks) != 1 or blocks[0][0] == "diff":
            raise BankError("an answer in full is one block; one that edits another says '- edit of: NAME'")
        return blocks[0][1].strip("\n")
    if base not in before:
        raise BankError(f"it edits {base}, which is not before it in the file")
    lines = before[base].source.splitlines()
    for language, diff in blocks:
        if language != "diff":
            raise BankError("an edit's blocks are diffs (```diff)")
        lines = _edited(lines, diff)
    return "\n".join(lines).strip("\n")


def _edited(source: list[str], diff: str) -> list[str]:
    """The lines of a source after a diff: a space, '-' or '+' is before each line, as in a unified diff."""
    lines = [line or " " for line in diff.splitlines()]
    if any(line[0] not in " -+" for line in lines):
        raise BankError("each line of a diff begins with a space, '-' or '+'")
    old, new = ([line[1:] for line in lines if line[0] != left_out] for left_out in "+-")
    starts = [start for start in range(len(source)) if source[start : start + len(old)] == old]
    if len(starts) != 1:
        raise BankError(f"its edit matches {len(starts)} times, and must match once: {' '.join(old)[:80]!r}")
    return [*source[: starts[0]], *new, *source[starts[0] + len(old) :]]
