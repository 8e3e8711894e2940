"""What the system counts for a process and its descendants, read from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = "/proc"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True)
class Usage:
    """What a process and all its descendants use at one moment."""

    cpu_seconds: float = 0.0
    waiting_seconds: float = 0.0
    """How long the threads that still run were ready to compute while the machine computed for somebody else."""
    resident_bytes: int = 0
    processes: int = 0
    threads: int = 0


def _read(path: str) -> str:
    """A file below /proc: no buffers, no pathlib, which take three times as long as the rest."""
    file = os.open(f"{_PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(file, 65536), b"")).decode(errors="replace")
    finally:
        os.close(file)


def _walk(root: int) -> Iterator[tuple[int, list[str]]]:
    """The numbers of a process and of its descendants, each with its threads' numbers."""
    waiting = [root]
    while waiting:
        process = waiting.pop()
        # Processes and threads come and go while they are looked at.
        threads: list[str] = []
        with contextlib.suppress(OSError):
            threads = os.listdir(f"{_PROC}/{process}/task")  # noqa: PTH208 - each of these is read often
        for thread in threads:
            with contextlib.suppress(OSError):
                waiting += map(int, _read(f"{process}/task/{thread}/children").split())
        yield process, threads


def family(root: int) -> Iterator[int]:
    """The numbers of a process and of its descendants."""
    return (process for process, _ in _walk(root))


def _stat(process: int) -> list[str]:
    """What the system counts for a process, from its state on."""
    # Behind the last parenthesis, since a program's name may hold any. The first one is field 3 of proc(5).
    return _read(f"{process}/stat").rpartition(")")[2].split()


def usage(root: int) -> Usage:
    """What a process and its descendants use. All zeros where there is no /proc."""
    ticks = pages = processes = running = waited = 0
    for process, threads in _walk(root):
        try:
            fields = _stat(process)
        except OSError:
            continue
        # Own and waited-for children's time: a child that ended is in its parent's.
        ticks += sum(map(int, fields[11:15]))
        if fields[0] == "Z":
            continue  # it has ended, and only its parent has not looked yet
        for thread in threads:
            with contextlib.suppress(OSError, IndexError):
                waited += int(_read(f"{process}/task/{thread}/schedstat").split()[1])
        running += int(fields[17])
        pages += int(fields[21])
        processes += 1
    return Usage(ticks / _TICKS, waited / 1e9, pages * _PAGE, processes, running)


def started(process: int) -> str | None:
    """When a process was started, in ticks since the machine was started; None when it has ended, reaped or not."""
    try:
        fields = _stat(process)
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def proportional_bytes(root: int) -> int:
    """Memory of a family with shared pages counted once; slower than `usage`."""
    total = 0
    for process in family(root):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += 1024 * int(_read(f"{process}/smaps_rollup").split("\nPss:")[1].split()[0])
    return total


def written(root: int, folder: str) -> tuple[int, int]:
    """How many bytes and files the private file system at `folder` holds; zeros where a family has none of its own."""
    own_device = Path(folder).stat().st_dev
    for process in family(root):
        # A number of its own is what tells a private file system from this machine's.
        with contextlib.suppress(OSError):
            view = Path(f"{_PROC}/{process}/root{folder}")
            if view.stat().st_dev != own_device:
                status = os.statvfs(view)
                return (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_files - status.f_ffree
    return 0, 0
