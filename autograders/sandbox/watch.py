"""Watches a kernel's processes from outside and ends them at their limits, whatever they do about signals."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .limits import MEGABYTE, Limits
from .sockets import CONNECTION

_PROC = "/proc"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_POLL = 0.1


@dataclass(frozen=True)
class Usage:
    """What a process and all its descendants use at one moment."""

    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    processes: int = 0
    threads: int = 0


def family(root: int) -> Iterator[int]:
    """The numbers of a process and of its descendants."""
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        # Processes and threads come and go while they are looked at.
        threads: list[str] = []
        with contextlib.suppress(OSError):
            threads = os.listdir(f"{_PROC}/{process}/task")  # noqa: PTH208 - each of these is read often
        for thread in threads:
            with contextlib.suppress(OSError):
                waiting += map(int, _read(f"{process}/task/{thread}/children").split())


def _read(path: str) -> str:
    """A file below /proc: no buffers, no pathlib, which take three times as long as the rest."""
    file = os.open(f"{_PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(file, 65536), b"")).decode(errors="replace")
    finally:
        os.close(file)


def _stat(process: int) -> list[str]:
    """What the system counts for a process, from its state on."""
    return _read(f"{process}/stat").rpartition(")")[2].split()


def usage(root: int) -> Usage:
    """What a process and its descendants use. All zeros where there is no /proc."""
    ticks = pages = processes = threads = 0
    for process in family(root):
        try:
            fields = _stat(process)
        except OSError:
            continue
        # Own and waited-for children's time: a child that ended is in its parent's.
        ticks += sum(map(int, fields[11:15]))
        if fields[0] == "Z":
            continue  # it has ended, and only its parent has not looked yet
        threads += int(fields[17])
        pages += int(fields[21])
        processes += 1
    return Usage(ticks / _TICKS, pages * _PAGE, processes, threads)


def _started(process: int) -> str | None:
    """When a process was started, in ticks since the machine was; None when there is none, or it waits to be reaped."""
    try:
        fields = _stat(process)
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _proportional_bytes(root: int) -> int:
    """Memory of a family with shared pages counted once; slower than `usage`."""
    total = 0
    for process in family(root):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += 1024 * int(_read(f"{process}/smaps_rollup").split("\nPss:")[1].split()[0])
    return total


class WatchError(RuntimeError):
    """The grader could not watch a kernel: its own fault, not the student's."""


class Watch:
    """Holds one kernel to the limits while a cell runs. `ended` says why it was killed, or is None."""

    def __init__(self, root: int, sockets: Path, limits: Limits, spent_before: tuple[float, float]) -> None:
        self._root, self._born = root, _started(root)
        self._sockets = sockets
        self._limits = limits
        self._before = spent_before
        self.ended: str | None = None
        self._fault: WatchError | None = None
        self.cpu_seconds = self.wall_seconds = 0.0
        self._start = self._end = Usage()

    @contextlib.contextmanager
    def cell(self, cpu_seconds: float) -> Iterator[None]:
        """Watch while one cell runs that may compute for `cpu_seconds`."""
        stop = threading.Event()
        self._start = start = usage(self._root)
        clock = time.monotonic()
        watcher = threading.Thread(target=self._guard, args=(stop, start, clock, cpu_seconds), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
            self._end = usage(self._root)
            if self.ended is None:
                self.cpu_seconds += max(self._end.cpu_seconds - start.cpu_seconds, 0.0)
            self.wall_seconds += time.monotonic() - clock
        if self._fault is not None:
            raise self._fault

    def _guard(self, *arguments: Any) -> None:
        """Poll; without a watcher nothing would end the cell, so that the watcher's own fault ends it."""
        try:
            self._poll(*arguments)
        except Exception as error:
            self._fault = WatchError(f"the watch over the kernel failed: {type(error).__name__}: {error}")
            self.kill()

    def _poll(self, stop: threading.Event, start: Usage, clock: float, cpu_seconds: float) -> None:
        seen = start
        while not stop.wait(_POLL):
            now = usage(self._root)
            # A process that has just ended may take its time with it.
            seen = max(seen, now, key=lambda each: each.cpu_seconds)
            used, passed = seen.cpu_seconds - start.cpu_seconds, time.monotonic() - clock
            self.ended = self._over(used, passed, cpu_seconds) or self._over_memory(now) or self._wrote()
            if self.ended is not None:
                self.cpu_seconds += used
                self.kill()
                return

    def _over(self, used: float, passed: float, cpu_seconds: float) -> str | None:
        limits = self._limits
        if used > cpu_seconds:
            return f"out of time: the cell used more than {cpu_seconds:g} s of computing time"
        if passed > limits.wall_factor * cpu_seconds:
            return f"out of time: the cell did not end within {limits.wall_factor * cpu_seconds:g} s by the clock"
        return self.exhausted(used, passed)

    def exhausted(self, used: float = 0.0, passed: float = 0.0) -> str | None:
        """Whether the notebook as a whole has used up its time."""
        total, clock = self._before
        total, clock = total + self.cpu_seconds + used, clock + self.wall_seconds + passed
        most = self._limits.notebook_seconds
        if total > most:
            return f"out of time: the notebook used more than {most:g} s of computing time"
        if clock > self._limits.wall_factor * most:
            return f"out of time: the notebook did not end within {self._limits.wall_factor * most:g} s by the clock"
        return None

    def _over_memory(self, now: Usage) -> str | None:
        most = self._limits.memory_mb * MEGABYTE
        if now.resident_bytes <= most or _proportional_bytes(self._root) <= most:
            return None
        return f"the kernel was stopped: its processes used more than {self._limits.memory_mb:g} MB of memory"

    def _wrote(self) -> str | None:
        """The kernel's sockets lie in a folder of the host's; nothing else is to be written there."""
        for path in self._sockets.iterdir():
            with contextlib.suppress(OSError):
                if path.name != CONNECTION and not stat.S_ISSOCK(path.lstat().st_mode):
                    return "the kernel was stopped: it wrote into the folder of its sockets"
        return None

    def left_behind(self) -> str | None:
        """What was running after the last cell that was not before it, in words; None when there was nothing."""
        before, after = self._start, self._end
        if after.processes > before.processes:
            return f"{after.processes - before.processes} processes"
        return f"{after.threads - before.threads} threads" if after.threads > before.threads else None

    def is_busy(self) -> bool:
        """Whether the kernel computes although no cell runs."""
        before, clock = usage(self._root).cpu_seconds, time.monotonic()
        for pause in (0.1, 0.2):
            time.sleep(pause)
            used = usage(self._root).cpu_seconds - before
            if not used:
                return False
        return used > 0.5 * (time.monotonic() - clock)

    def kill(self) -> None:
        """End the kernel and, with walls, everything that it has started."""
        if _started(self._root) != self._born:
            return  # it has ended, and its number may be another process's by now
        for process in list(family(self._root)):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
