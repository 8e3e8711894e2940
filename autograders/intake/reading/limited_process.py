"""Calls functions in a process of its own, whose computing time and memory are limited.

What a student hands in can make any parser slow or hungry. There it costs that one call; here it would cost the class.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
_MEGABYTE = 1_000_000
_SERVE = (
    "import sys; sys.path.append({root!r}); "
    "from autograders.intake.reading.limited_process import serve; serve({number}, {preload!r})"
)
_ATTEMPTS = 2


class OverLimit(RuntimeError):  # noqa: N818 - a state of a call, not a fault of ours
    """A call that was stopped; the message ends a sentence that begins with what was tried."""


class _ProcessEnded(Exception):  # noqa: N818 - a state of the process
    """The process ended before it answered."""


class LimitedProcess:
    """One process that answers one call at a time. It starts with the first call, and again after it has ended."""

    def __init__(self, seconds: float, megabytes: int, preload: Sequence[str]) -> None:
        """Args: computing time and additional memory of one call, and the modules to import beforehand."""
        self.seconds, self.megabytes, self._preload = seconds, megabytes, tuple(preload)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection

    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `function`, one of a module's, returns or raises there. Raises OverLimit when it was stopped."""
        request = pickle.dumps((self.seconds, self.megabytes, function, arguments, named), pickle.HIGHEST_PROTOCOL)
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    succeeded, value = self._ask(request)
                except _ProcessEnded:
                    # Ended by somebody else: the machine was short of memory, or the process was idle and swept up.
                    code = self._end()
                    if code not in (-signal.SIGKILL, -signal.SIGTERM):
                        break
                except BaseException:
                    self._end()
                    raise
                else:
                    if succeeded:
                        return cast(T, value)
                    if isinstance(value, MemoryError):
                        self._end()
                        raise OverLimit(f"needs more than {self.megabytes:,} MB of memory") from None
                    assert isinstance(value, Exception)
                    raise value
        if code == -signal.SIGXCPU:
            raise OverLimit(f"takes more than {self.seconds:g} s of computing time")
        raise OverLimit(f"ended the process that did it (exit code {code})")

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes) -> tuple[bool, object]:
        if self._process is None:
            self._start()
        try:
            self._pipe.send_bytes(request)
            answer: tuple[bool, object] = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise _ProcessEnded from None
        return answer

    def _start(self) -> None:
        self._pipe, child_end = Pipe()
        root = str(Path(__file__).resolve().parents[3])
        program = _SERVE.format(root=root, number=child_end.fileno(), preload=self._preload)
        # -P: the folder in which the instructor works may hold a student's json.py.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", program],  # a student's "\\d" is no warning for the instructor
            stdin=subprocess.DEVNULL,
            pass_fds=[child_end.fileno()],
            start_new_session=True,  # Ctrl+C is for the parent, which decides
        )
        child_end.close()

    def _end(self) -> int:
        """End the process and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        self._pipe.close()
        # Idle, it ends by itself when its pipe is closed; in the midst of a call it does not look.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(1.0)
        process.kill()
        return process.wait()


def serve(number: int, preload: Sequence[str]) -> None:
    """Answer calls that come over a pipe, until its other end is closed."""
    pipe = Connection(number)
    # A core file would hold what a student handed in.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in preload:
        importlib.import_module(name)
    with contextlib.suppress(EOFError, OSError):
        while True:
            seconds, megabytes, function, arguments, named = pickle.loads(pipe.recv_bytes())
            with _limits(seconds, megabytes):
                answer = _answer(function, arguments, named)
            pipe.send_bytes(answer)


@contextlib.contextmanager
def _limits(seconds: float, megabytes: int) -> Iterator[None]:
    """Allow this process so much more than it has used so far; the kernel ends it, or refuses it memory, at more."""
    # The kernel counts whole seconds.
    soft = {resource.RLIMIT_CPU: math.ceil(time.process_time() + seconds)}
    pages = Path("/proc/self/statm")  # elsewhere than on Linux the limit of memory would not hold anyway
    if pages.exists():
        used = int(pages.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        soft[resource.RLIMIT_AS] = used + megabytes * _MEGABYTE
    # Soft limits only: the process serves the next call too, and a hard limit cannot be raised again.
    before = {kind: resource.getrlimit(kind) for kind in soft}
    for kind, most in soft.items():
        resource.setrlimit(kind, (most, before[kind][1]))
    try:
        yield
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


def _answer(function: Callable[..., object], arguments: tuple[object, ...], named: dict[str, object]) -> bytes:
    try:
        return pickle.dumps((True, function(*arguments, **named)), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps((False, MemoryError()))
    except Exception as error:
        error.__traceback__ = error.__context__ = None  # they hold what used the memory
        with contextlib.suppress(Exception):
            return pickle.dumps((False, error))
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"[:500])))
