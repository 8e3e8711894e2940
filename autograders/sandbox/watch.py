"""Watches a kernel's processes from outside and ends them at their limits, whatever they do about signals."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..reasons import Kind, Reason
from .control_groups import ControlGroup
from .limits import FILES, MEGABYTE, PRIVATE_FOLDERS, Limits
from .processes import Usage, family, proportional_bytes, started, usage, written

_POLL = 0.1


class WatchError(RuntimeError):
    """The grader could not watch a kernel: its own fault, not the student's."""


def _out_of_time(why: str) -> Reason:
    return Reason(Kind.OUT_OF_TIME, f"out of time: {why}")


def _stopped(why: str) -> Reason:
    return Reason(Kind.KERNEL_STOPPED, f"the kernel was stopped: {why}")


class Watch:
    """Holds one kernel to the limits while a cell runs. `ended` says why it was killed, or is None."""

    def __init__(
        self, root: int, limits: Limits, spent_before: tuple[float, float], group: ControlGroup | None = None
    ) -> None:
        self._root, self._born = root, started(root)
        self._limits = limits
        self._before = spent_before
        self._group = group
        self.ended: Reason | None = None
        self._fault: WatchError | None = None
        self.cpu_seconds = self.wall_seconds = 0.0
        self._start = self._end = Usage()
        self._waited = 0.0

    def _usage(self) -> Usage:
        """What the kernel's processes use; their time by the system's own account where it keeps one."""
        current = usage(self._root)
        counted = self._group.cpu_seconds() if self._group else None
        return current if counted is None else replace(current, cpu_seconds=counted)

    @contextlib.contextmanager
    def cell(self, cpu_seconds: float) -> Iterator[None]:
        """Watch while one cell runs that may compute for `cpu_seconds`."""
        stop = threading.Event()
        start = self._usage()
        self._start, self._waited = start, 0.0
        clock = time.monotonic()
        watcher = threading.Thread(target=self._guard, args=(stop, start, clock, cpu_seconds), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
            # In place of the dead kernel's error: the watch killed it, and that is nobody's answer.
            if self._fault is not None:
                raise self._fault
            self._end = self._usage()
            if self.ended is None:
                self.cpu_seconds += max(self._end.cpu_seconds - start.cpu_seconds, 0.0)
                self.ended = self._ran_out_of_memory()
            self.wall_seconds += time.monotonic() - clock - self._waited

    def _guard(self, *arguments: Any) -> None:
        """Poll; without a watcher nothing would end the cell, so that the watcher's own fault ends it."""
        try:
            self._poll(*arguments)
        except Exception as error:
            self._fault = WatchError(f"the watch over the kernel failed: {type(error).__name__}: {error}")
            self.kill()

    def _poll(self, stop: threading.Event, start: Usage, clock: float, cpu_seconds: float) -> None:
        most, previous, previous_moment = start, start, clock
        while not stop.wait(_POLL):
            now, moment = self._usage(), time.monotonic()
            # A process that has just ended may take its time with it.
            most = max(most, now, key=lambda sample: sample.cpu_seconds)
            # On a busy machine a loop gets little computing time: what it waits for the machine is nobody's sleep.
            self._waited += min(max(now.waiting_seconds - previous.waiting_seconds, 0.0), moment - previous_moment)
            previous, previous_moment = now, moment
            used, passed = most.cpu_seconds - start.cpu_seconds, moment - clock - self._waited
            self.ended = self._over(used, passed, cpu_seconds) or self._over_memory(now) or self._over_files()
            if self.ended is not None:
                self.cpu_seconds += used
                self.kill()
                return

    def _over(self, used: float, passed: float, cpu_seconds: float) -> Reason | None:
        limits = self._limits
        if used > cpu_seconds:
            return _out_of_time(f"the cell used more than {cpu_seconds:g} s of computing time")
        if passed > limits.wall_factor * cpu_seconds:
            return _out_of_time(f"the cell did not end within {limits.wall_factor * cpu_seconds:g} s by the clock")
        return self.exhausted(used, passed)

    def exhausted(self, used: float = 0.0, passed: float = 0.0) -> Reason | None:
        """Whether the notebook as a whole has used up its time."""
        total, clock = self._before
        total, clock = total + self.cpu_seconds + used, clock + self.wall_seconds + passed
        most = self._limits.notebook_seconds
        if total > most:
            return _out_of_time(f"the notebook used more than {most:g} s of computing time")
        if clock > self._limits.wall_factor * most:
            return _out_of_time(f"the notebook did not end within {self._limits.wall_factor * most:g} s by the clock")
        return None

    def _over_memory(self, now: Usage) -> Reason | None:
        most = self._limits.memory_mb * MEGABYTE
        # Resident memory counts a shared page once for each process: quick, and never too low. The exact sum is slow.
        if now.resident_bytes > most and proportional_bytes(self._root) > most:
            return self._too_much_memory
        # Shared pages that no process has in its map any more are in nobody's resident memory, but in the group's.
        if self._group is not None and self._group.used_bytes() > most:
            files = sum(written(self._root, folder)[0] for folder in PRIVATE_FOLDERS)
            if self._group.unreclaimable_bytes() - files > most:
                return self._too_much_memory
        return None

    def _ran_out_of_memory(self) -> Reason | None:
        return self._too_much_memory if self._group is not None and self._group.was_full() else None

    @property
    def _too_much_memory(self) -> Reason:
        return _stopped(f"its processes used more than {self._limits.memory_mb:g} MB of memory")

    def _over_files(self) -> Reason | None:
        """Where the file systems themselves cannot be given a limit (see `namespaces.py`)."""
        for folder in PRIVATE_FOLDERS:
            if written(self._root, folder)[1] > FILES:
                return _stopped(f"it made more than {FILES:,} files in {folder}")
        return None

    def left_behind(self) -> str | None:
        """What the last cell started and left running, in words; None when there is nothing."""
        before, after = self._start, self._end
        if after.processes > before.processes:
            return f"{after.processes - before.processes} processes"
        return f"{after.threads - before.threads} threads" if after.threads > before.threads else None

    def is_busy(self) -> bool:
        """Whether the kernel computes, or would if the machine were free, although no cell runs."""
        before, clock = self._usage(), time.monotonic()
        for pause in (0.1, 0.2):
            time.sleep(pause)
            now = self._usage()
            used = now.cpu_seconds - before.cpu_seconds
            waited = max(now.waiting_seconds - before.waiting_seconds, 0.0)
            if not used and not waited:
                return False
        return used + waited > 0.5 * (time.monotonic() - clock)

    def kill(self) -> None:
        """End the kernel and, with walls, everything that it has started."""
        if started(self._root) != self._born:
            return  # it has ended, and its number may be another process's by now
        for process in list(family(self._root)):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
