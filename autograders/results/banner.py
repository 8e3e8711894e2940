"""A submission's state and reasons, as a piece of a page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from ..grading.states import MEANINGS
from ..plain_text import plain

MOST_REASONS, MOST_CHARACTERS = 12, 600
"""How many reasons a page shows, and how much of each: a student may hand in hundreds of files, with long names."""


def state_banner(state: str, reasons: Sequence[str]) -> str:
    """A state, what it means and its reasons as a piece of HTML; nothing in a reason is read as HTML or Markdown."""
    texts = [text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…" for text in filter(None, reasons)]
    if len(texts) > MOST_REASONS:
        texts = [*texts[:MOST_REASONS], f"and {len(texts) - MOST_REASONS} more"]
    items = "".join(f"<li>{html.escape(plain(text))}</li>" for text in texts)
    style = "border-left:4px solid #0072B2;padding:0.3em 0.8em;margin-bottom:1em"
    words = f"<strong>{html.escape(state)}</strong>: {html.escape(MEANINGS.get(state, 'see the reason'))}"
    return f'<div style="{style}">{words}{f"<ul>{items}</ul>" if items else ""}</div>'
