"""Closes the files that an answer left open: a process has a limit on them, and the answers that follow need some."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import socket
import stat
from collections.abc import Set
from multiprocessing.popen_fork import Popen
from pathlib import Path

_FEW = 8
"""So many may stay open: a log that an answer keeps, what a library opens once."""
_OPEN = "/proc/self/fd"
_OUTER_FIRST = (io.TextIOBase, io.BufferedIOBase, io.RawIOBase, socket.socket)
"""Objects that hold a descriptor: one that wraps another comes first, so that what it has buffered is written."""


class OpenFiles:
    """What was open at the start of a piece of code, on Linux; elsewhere nothing is closed."""

    def __init__(self) -> None:
        self._before = _descriptors()

    def put_back(self) -> list[str]:
        """Close what was opened since and is still open, if that is more than a few. Returns what was closed, in words.

        An object that holds a descriptor is closed itself: one whose descriptor is closed behind its back would later
        close another one of the same number.
        """
        if len(self._left()) <= _FEW:
            return []
        gc.collect()  # files in circles of references that nobody reaches any more
        left = self._left()
        if len(left) <= _FEW:
            return []
        owned = _Owners()
        owned.close(left)
        for descriptor in self._left():
            if not owned.by_others(descriptor):
                os.close(descriptor)
        closed = len(left - self._left())
        return [f"{closed} files are open"] if closed else []

    def _left(self) -> Set[int]:
        return _descriptors() - self._before


class _Owners:
    """The objects of this process that hold descriptors."""

    def __init__(self) -> None:
        # Types are asked, not the objects: some answer for what they stand for, or compute it.
        objects = gc.get_objects()
        self._files = [item for kind in _OUTER_FIRST for item in objects if issubclass(type(item), kind)]
        self._processes = any(issubclass(type(item), Popen) for item in objects)
        try:
            self._mapped = Path("/proc/self/maps").read_text("utf-8", "replace")
        except OSError:  # not even this one can be opened any more
            self._mapped = ""

    def close(self, descriptors: Set[int]) -> None:
        """Close the file objects and sockets that hold one of `descriptors`."""
        for item in self._files:
            with contextlib.suppress(Exception):
                if item.fileno() in descriptors:
                    item.close()

    def by_others(self, descriptor: int) -> bool:
        """Whether something that is not a file object may own a descriptor: a mapped array, a process, a library."""
        try:
            mode, name = os.fstat(descriptor).st_mode, os.readlink(f"{_OPEN}/{descriptor}")  # noqa: PTH115
        except OSError:
            return True
        if stat.S_ISFIFO(mode):
            return self._processes
        return not (name == os.devnull or ((stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and name not in self._mapped))


def _descriptors() -> Set[int]:
    """The descriptors that are open, without the one that listing them takes."""
    try:
        return {descriptor for descriptor in map(int, os.listdir(_OPEN)) if _is_open(descriptor)}  # noqa: PTH208
    except FileNotFoundError:
        return frozenset()
    except OSError:  # none is left for the list
        return set(filter(_is_open, range(os.sysconf("SC_OPEN_MAX"))))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
