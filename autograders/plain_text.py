"""Text that others wrote, for a terminal, a log, a table or a page: nothing in it moves a cursor or turns a line."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_JOINERS = "\u200c\u200d"
"""Persian words and emoji need them, and they hide nothing."""


def plain(text: object, *, lines: bool = False) -> str:
    r"""`text` with every character that is a command and no sign written as its number: `\x1b`, `\u202e`, `\udcdc`.

    Control characters, escapes, line ends (kept with `lines`), halves of characters, and what turns the direction of
    writing. The result can be encoded as UTF-8.
    """
    text = str(text)
    if text.isprintable():  # nearly all: a table of 5,000 students has a million of them
        return text
    return "".join(
        character if _is_shown(character) or (lines and character in "\n\t") else _number(character)
        for character in text
    )


def some(texts: Sequence[str], most: int = 5) -> str:
    """The first of some names, with how many more there are."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


def _number(character: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(character)
    return named.get(character) or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
