"""A submission's state and reasons, as a piece of a page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from ..grading.states import MEANINGS
from ..plain_text import plain


def state_banner(state: str, reasons: Sequence[str]) -> str:
    """A state, what it means and its reasons as a piece of HTML; nothing in a reason is read as HTML or Markdown."""
    items = "".join(f"<li>{html.escape(plain(reason))}</li>" for reason in reasons if reason)
    style = "border-left:4px solid #0072B2;padding:0.3em 0.8em;margin-bottom:1em"
    words = f"<strong>{html.escape(state)}</strong>: {html.escape(MEANINGS.get(state, 'see the reason'))}"
    return f'<div style="{style}">{words}{f"<ul>{items}</ul>" if items else ""}</div>'
