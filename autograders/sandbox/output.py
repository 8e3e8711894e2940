"""How much of what a cell shows reaches the grader: an observation always, the rest up to a limit."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from ..probes import MIME
from ..questions.observation_size import within_limits

_COUNTED = ("stream", "display_data", "update_display_data", "execute_result", "error", "comm_open", "comm_msg")
_MOST_OBSERVATIONS = 3
_OVERHEAD = 100


class Meter:
    """Counts what one cell shows. The kernel cuts floods itself; this holds when a student's code has changed that."""

    def __init__(self, most: int) -> None:
        # A little more than the kernel allows itself, whose note says the same.
        self._left = most + 2000
        self._most = most
        self._observations = 0

    @property
    def shown(self) -> int:
        """How much was shown so far."""
        return self._most + 2000 - self._left

    def takes(self, message: dict[str, Any], cell: NotebookNode) -> bool:
        """Whether a message of the kernel is kept. The first one that is not leaves a note in the cell."""
        if message["msg_type"] not in _COUNTED:
            return True
        content = message["content"]
        if MIME in content.get("data", {}):
            # One is expected; two are judged to be tampering, and more would say no more.
            self._observations += 1
            content["data"][MIME] = within_limits(content["data"][MIME])
            return self._observations <= _MOST_OBSERVATIONS
        if self._left < 0:
            return False
        size = len(content["text"]) if message["msg_type"] == "stream" else len(repr(content))
        self._left -= size + _OVERHEAD
        if self._left >= 0:
            return True
        note = f"[output cut: while grading, a cell shows at most {self._most:,} characters]\n"
        cell.outputs.append(new_output("stream", name="stdout", text=note))
        return False
