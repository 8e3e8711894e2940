"""Control groups: where this machine lets us make one for each kernel, the system itself counts what it uses.

Version 2 where it is delegated to us (a service or scope with Delegate=yes, or root), with the memory controller of
version 1 where the machine still has that. What can be counted this way is asked once (`counted`); what cannot be
counted is refused to students' code instead (`syscall_filter.py`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .limits import MEGABYTE, Limits

MEMORY, TIME = "memory", "time"
_NAME = "lecture"
_OWN = f"{_NAME}-graders"
_SLACK_MB = 128.0
"""What the system keeps for a notebook's processes besides their memory: their tables, buffers, threads' stacks."""


@dataclass(frozen=True)
class _Version:
    """The names of one version's files, and of what they count."""

    limit: str
    used: str
    private: str
    killed: str
    settings: tuple[tuple[str, str], ...]


_FIRST = _Version("memory.limit_in_bytes", "memory.usage_in_bytes", "rss", "memory.oom_control", ())
_SECOND = _Version(
    "memory.max", "memory.current", "anon", "memory.events", (("memory.swap.max", "0"), ("memory.oom.group", "1"))
)


class ControlGroup:
    """The group of one kernel: every process that starts in it stays in it."""

    def __init__(self, limits: Limits) -> None:
        """Make it. Raises OSError."""
        name = f"{_NAME}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._memory, self._time = (self._make(kind, name) for kind in (MEMORY, TIME))
        if self._memory is not None:
            # Above what the watch lets pass, so that it is the watch that says what happened: here the system ends
            # what is quicker than the watch looks.
            most = limits.memory_mb + 2 * limits.disk_mb + _SLACK_MB
            (self._memory / _version(self._memory).limit).write_text(str(int(most * MEGABYTE)), "ascii")
            for setting, value in _version(self._memory).settings:
                with contextlib.suppress(OSError):  # a machine without swap has no limit on swap
                    (self._memory / setting).write_text(value, "ascii")

    @staticmethod
    def _make(kind: str, name: str) -> Path | None:
        parent = _parents().get(kind)
        if parent is None:
            return None
        folder = parent / name
        folder.mkdir(exist_ok=True)
        return folder

    def add(self, process: int) -> None:
        """Move a process into it, with what it starts from now on. Raises OSError."""
        for folder in self._folders():
            (folder / "cgroup.procs").write_text(str(process), "ascii")

    def cpu_seconds(self) -> float | None:
        """Computing time of all processes that ever were in it, or None where that is not counted."""
        if self._time is None:
            return None
        return _number(self._time / "cpu.stat", "usage_usec") / 1e6

    def used_bytes(self) -> int:
        """Memory of every kind, what could be given back at once included."""
        if self._memory is None:
            return 0
        return int((self._memory / _version(self._memory).used).read_text("ascii"))

    def unreclaimable_bytes(self) -> int:
        """Private memory, shared memory and files in memory, mapped by a process or not."""
        if self._memory is None:
            return 0
        return sum(_number(self._memory / "memory.stat", name) for name in (_version(self._memory).private, "shmem"))

    def was_full(self) -> bool:
        """Whether the system has ended one of its processes because the group's memory was full."""
        if self._memory is None:
            return False
        return _number(self._memory / _version(self._memory).killed, "oom_kill") > 0

    def close(self) -> None:
        """Remove it; processes that were just killed may be a moment in it."""
        for folder in self._folders():
            for _ in range(100):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
                else:
                    break

    def _folders(self) -> set[Path]:
        return {folder for folder in (self._memory, self._time) if folder is not None}


def counted() -> frozenset[str]:
    """What can be counted by groups here: MEMORY, TIME, both or nothing."""
    return frozenset(_parents())


def describe() -> str:
    """What is counted how, in words."""
    groups = _parents()
    counted_by = [
        f"{kind} by version {2 if _version(groups[kind]) is _SECOND else 1}"
        for kind in (MEMORY, TIME)
        if kind in groups
    ]
    refused = {
        MEMORY: "shared memory without a file is refused, the system's buffers are not counted",
        TIME: "handlers for the end of a child process have no effect",
    }
    return "; ".join([*counted_by, *(f"{kind} not counted: {refused[kind]}" for kind in refused if kind not in groups)])


def _version(folder: Path) -> _Version:
    return _FIRST if (folder / _FIRST.used).exists() else _SECOND


def _number(file: Path, name: str) -> int:
    for line in file.read_text("ascii").splitlines():
        words = line.split()
        if words[0] == name:
            return int(words[1])
    return 0


@functools.cache
def _parents() -> dict[str, Path]:
    """In which group ours can be made, for what. Tries it."""
    groups: dict[str, Path] = {}
    for controllers, folder in _own_groups():
        version_two = not controllers
        if version_two or MEMORY in controllers:
            _sweep(folder)
            for kind, file in ((MEMORY, "memory.stat"), (TIME, "cpu.stat")):
                if (version_two or kind == MEMORY) and _can_make(folder, kind, file, version_two):
                    groups.setdefault(kind, folder)
    return groups


def _own_groups() -> Iterator[tuple[str, Path]]:
    """The controllers (none for version 2) and the folder of each group that this process is in."""
    try:
        mounts, groups = (Path("/proc/self", name).read_text("utf-8") for name in ("mountinfo", "cgroup"))
    except OSError:
        return
    for controllers, folder in folders_of(mounts, groups):
        yield controllers, folder.parent if folder.name == _OWN else folder


def folders_of(mounts: str, groups: str) -> Iterator[tuple[str, Path]]:
    """The controllers and the folder of each group, from a process's files `mountinfo` and `cgroup`.

    A mount may show a part of the hierarchy only (in a container); a group outside of it has no folder.
    """
    for _, controllers, path in (line.split(":", 2) for line in groups.splitlines()):
        for mount in (line.split() for line in mounts.splitlines()):
            root, place, kind, options = mount[3], mount[4], mount[mount.index("-") + 1], mount[-1].split(",")
            fits = kind == "cgroup" and controllers in options if controllers else kind == "cgroup2"
            if fits and Path(path).is_relative_to(root):
                yield controllers, Path(place) / Path(path).relative_to(root)


def _can_make(parent: Path, kind: str, file: str, version_two: bool) -> bool:
    """Whether a group below `parent` is ours to make, to fill and to read."""
    if not os.access(parent / "cgroup.procs", os.W_OK):
        return False
    if version_two and kind == MEMORY and not _delegate_memory(parent):
        return False
    # Tried, since write permission alone does not say whether the system's rules allow it.
    trial = parent / f"{_NAME}-{os.getpid()}-trial"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return (trial / file).exists()
    finally:
        trial.rmdir()


def _delegate_memory(parent: Path) -> bool:
    """Have groups below `parent` count memory. A group that has others below it must hold no process itself."""
    if MEMORY in (parent / "cgroup.subtree_control").read_text("ascii").split():
        return True
    if MEMORY not in (parent / "cgroup.controllers").read_text("ascii").split():
        return False
    own = parent / _OWN
    try:
        own.mkdir(exist_ok=True)
        (own / "cgroup.procs").write_text(str(os.getpid()), "ascii")
        (parent / "cgroup.subtree_control").write_text("+memory", "ascii")
    except OSError:  # somebody else's processes are in it: it is not ours alone
        with contextlib.suppress(OSError):
            (parent / "cgroup.procs").write_text(str(os.getpid()), "ascii")
            own.rmdir()
        return False
    return True


def _sweep(parent: Path) -> None:
    """Remove the groups that killed graders have left."""
    for folder in parent.glob(f"{_NAME}-[0-9]*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
