"""A picture as an `img` that holds it, and says in words what it shows."""

from __future__ import annotations

import base64
import html


def image_tag(picture: bytes, kind: str, alt: str, style: str = "max-width: 100%") -> str:
    """The element.

    Args:
        picture: the file's content.
        kind: of the media type: png or svg+xml.
        alt: the picture in words.
        style: as given, it is scaled down where the page is narrower.

    """
    source = f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    return f'<img src="{source}" alt="{html.escape(alt)}" style="{style}">'
