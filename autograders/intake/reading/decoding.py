"""From a file's bytes to JSON: encodings, byte order marks, merge conflicts. Every repair is reported."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Any

from ...reasons import Kind, Reason
from .submission_limits import MAX_BYTES, MAX_LISTS

_MARK = re.compile(r"^([<=>])\1{6}(?: [^\n]*|\r)?$\n?", re.MULTILINE)
_MARKS_OF_A_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")
_HALF = "it holds half a merge conflict (<<<<<<<): resolve the merge and hand in again"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_KINDS = (
    (b"PK\x03\x04", "it is a zip archive under another name: unpack it and hand in the .ipynb"),
    (b"%PDF", "it is a PDF: hand in the .ipynb that it was made from"),
    (b"<!DOCTYPE", "it is an HTML page: hand in the .ipynb that it was made from"),
    (b"<html", "it is an HTML page: hand in the .ipynb that it was made from"),
    (b"version https://git-lfs", "it is a Git LFS pointer, not the notebook: run `git lfs pull` and hand in again"),
)


class Unreadable(ValueError):  # noqa: N818 - a state of a submission, not a fault of ours
    """A submission that cannot be graded; the message is the reason, in words that can be passed on."""

    def __init__(self, text: str, kind: Kind = Kind.OTHER, detail: str = "", notes: Sequence[str] = ()) -> None:
        """Args: the reason's sentence, kind and detail (see `Reason`), and what is to be said besides."""
        super().__init__("; ".join([text, *notes]))
        self.reasons = (Reason(kind, text, detail), *(Reason(Kind.NOTE, note) for note in notes))


def read_json(content: bytes) -> tuple[list[Any], list[str]]:
    """The JSON value in `content`, and notes on what was repaired on the way.

    There are two values where the file holds merge conflicts and both sides can be read. Raises Unreadable with the
    reason when nothing can be read.
    """
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{len(content):,} bytes, {MAX_BYTES:,} are allowed: clear the outputs and hand in again")
    if not content.strip(b"\0 \t\r\n"):
        raise Unreadable("the file is empty: it was handed in before it was saved, or the upload failed", Kind.EMPTY)
    head = content.lstrip()[:64].lower()
    for start, reason in _OTHER_KINDS:
        if head.startswith(start.lower()):
            raise Unreadable(f"not a notebook: {reason}", Kind.NOT_A_NOTEBOOK)
    if (lists := content.count(b"[") + content.count(b"{")) > MAX_LISTS:
        raise Unreadable(f"{lists:,} opening brackets, {MAX_LISTS:,} are allowed: clear the outputs and hand in again")
    text, notes = _decode(content)
    sides = _sides(text)
    if len(sides) > 1:
        notes.append("it holds a merge conflict (<<<<<<<), whose two sides have the same answers")
    return [_parse(side) for side in sides], notes


def without_surrogates(text: str) -> tuple[str, bool]:
    """`text` with each half of a character replaced by U+FFFD, and whether there was one."""
    cleaned = _SURROGATE.sub("\ufffd", text)
    return cleaned, cleaned != text


def _sides(text: str) -> list[str]:
    """The text, or, with merge conflicts in it, its two sides; one pass, however many marks there are."""
    if not any(mark in text for mark in _MARKS_OF_A_CONFLICT):
        return [text]  # the pattern takes longer than the JSON
    ours, theirs = [], []
    expected, end = "<", 0
    for mark in _MARK.finditer(text):
        if mark[1] != expected:
            raise Unreadable(_HALF, Kind.HALF_A_MERGE_CONFLICT)
        piece = text[end : mark.start()]
        if expected in "<=":
            ours.append(piece)
        if expected in "<>":
            theirs.append(piece)
        expected, end = {"<": "=", "=": ">", ">": "<"}[expected], mark.end()
    if expected != "<":
        raise Unreadable(_HALF, Kind.HALF_A_MERGE_CONFLICT)
    if end == 0:
        return [text]
    return ["".join([*side, text[end:]]) for side in (ours, theirs)]


def _decode(content: bytes) -> tuple[str, list[str]]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            text = content[len(mark) :].decode(encoding, "replace")
            name = "byte order mark" if encoding == "utf-8" else encoding.upper()
            return text, [f"it was saved with a {name}" if encoding == "utf-8" else f"it was saved as {name}"]
    # A notebook starts with an ASCII character, whose other byte is 0 in UTF-16.
    if content[:2].count(0) == 1:
        encoding = "utf-16-be" if content[0] == 0 else "utf-16-le"
        return content.decode(encoding, "replace"), [f"it was saved as {encoding.upper()}"]
    notes = []
    if content.endswith(b"\0"):
        content = content.rstrip(b"\0")
        notes.append("it ended in zero bytes")
    try:
        # Half a character, which Python would refuse here, is replaced cell by cell later, with a note.
        return content.decode("utf-8", "surrogatepass"), notes
    except UnicodeDecodeError as error:
        notes.append(f"not UTF-8 (byte {error.start}): read as Latin-1")
    try:
        # What Windows writes; a few bytes have no meaning in it, and every byte has one in Latin-1.
        return content.decode("cp1252"), notes
    except UnicodeDecodeError:
        return content.decode("latin-1"), notes


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}: {error.msg}"
        cut = "it is cut off, the upload or the save did not finish" if error.pos >= len(text.rstrip()) - 1 else ""
        broken = cut or "it is cut off, or was edited outside Jupyter"
        text = f"not JSON ({where}): {broken}. Open it in Jupyter, save it, hand in again"
        raise Unreadable(text, Kind.NOT_JSON) from None
    except RecursionError:
        raise Unreadable(
            "brackets within brackets, thousands deep: no notebook. Save it in Jupyter, hand in again"
        ) from None
    except ValueError as error:
        text = f"not a notebook's JSON ({type(error).__name__}: {str(error)[:80]})"
        raise Unreadable(text, Kind.NOT_A_NOTEBOOK) from None
