"""Reduces a kernel's messages to what a notebook can hold: a student's code can send anything.

nbclient puts a message's fields into the notebook as they are. One of a wrong kind would make the whole notebook
invalid, and half a character would make it unwritable, long after the cell that sent it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..intake.reading.decoding import without_surrogates
from ..intake.reading.submission_limits import MAX_NESTING

_JSON = re.compile(r"application/(.*\+)?json")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_lines(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(line, str) for line in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


_DISPLAY: dict[str, Callable[[Any], bool]] = {"data": _is_mapping, "metadata": _is_mapping}
_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "stream": {"name": _is_text, "text": _is_text},
    "error": {"ename": _is_text, "evalue": _is_text, "traceback": _is_lines},
    "display_data": _DISPLAY,
    "update_display_data": _DISPLAY,
    "execute_result": _DISPLAY,
    "status": {"execution_state": _is_text},
    "comm_open": {"comm_id": _is_text, "data": _is_mapping},
    "comm_msg": {"comm_id": _is_text, "data": _is_mapping},
    "comm_close": {"comm_id": _is_text, "data": _is_mapping},
    "clear_output": {},
    "execute_input": {},
}


def plain(message: dict[str, Any]) -> dict[str, Any] | None:
    """The message with what a notebook can hold of it, or None when nothing is left of it."""
    content, fields = message.get("content"), _FIELDS.get(message["msg_type"])
    if fields is None or not isinstance(content, dict) or not is_shallow(content):
        return None
    content = _whole(content)
    if not all(name in content and is_right(content[name]) for name, is_right in fields.items()):
        return None
    if "execution_count" in content or message["msg_type"] == "execute_result":
        count = content.get("execution_count")
        # `isinstance` would take True for a number.
        content["execution_count"] = count if type(count) is int and count >= 0 else None
    transient = content.pop("transient", None)
    if isinstance(transient, dict) and isinstance(transient.get("display_id"), str):
        content["transient"] = {"display_id": transient["display_id"]}
    if fields is _DISPLAY:
        content["data"] = {kind: value for kind, value in content["data"].items() if _is_of_kind(kind, value)}
    return {**message, "content": content}


def is_shallow(value: Any) -> bool:
    """Whether nested lists and mappings are no deeper than allowed."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for parent in level if isinstance(parent, dict | list) for child in _inside(parent)]
        if not level:
            return True
    return False


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _whole(value: Any) -> Any:
    """JSON-ready data with U+FFFD in the place of half characters."""
    if isinstance(value, str):
        return value if value.isascii() else without_surrogates(value)[0]
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(inner) for key, inner in value.items()}
    return value


def _is_of_kind(kind: str, value: Any) -> bool:
    """Whether a display's data are what its MIME type has: JSON, or text."""
    return _JSON.fullmatch(kind) is not None or _is_text(value) or _is_lines(value)
