"""A process that grades what it is given: it knows one submission at a time and no gradebook."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import multiprocessing.util
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from ..course import CourseError
from ..sandbox.jail import require_walls
from ..writer import short
from .attempt import Outcome, execute
from .job import GradingTask, differences, environment

GRACE = 10.0
"""Seconds that a process has to end its kernels when its run was stopped."""

_LOCK = ".lock"
_one_at_a_time = threading.Lock()
_started, _interrupted = threading.Event(), threading.Event()


def grade_task(task: GradingTask) -> Outcome:
    """Run and judge one submission in a folder of its own, which is removed afterwards.

    Raises CourseError when this machine must not grade it (other versions, no sandbox) or cannot (a full disk).
    """
    # nbgrader and the folder for temporary files are the process's, not the thread's.
    with _one_at_a_time:
        deviation = differences(task.environment, environment())
        if deviation:
            raise CourseError(
                f"a worker on {socket.gethostname()} has {deviation}. Scores must not depend on where a submission is "
                "graded: install the same checkout and packages there. What was finished is kept."
            )
        require_walls(task.without_sandbox)
        with _folder() as folder:
            return execute(task.unpack(folder), task.assignment, task.student)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder for one submission; temporary files lie beside it meanwhile."""
    own, before = _own_folder(), tempfile.tempdir
    tempfile.tempdir = str(own)
    try:
        yield own / "course"
    finally:
        tempfile.tempdir = before
        shutil.rmtree(own / "course", ignore_errors=True)


@functools.cache
def _own_folder() -> Path:
    """This process's folder for temporary files. It goes with the process, or with the next one after a killed one."""
    base = short(Path(tempfile.gettempdir()))
    for leftover in base.glob("autograde-w*"):
        with contextlib.suppress(OSError), (leftover / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system gave it back when its holder ended
            shutil.rmtree(leftover, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix="autograde-w", dir=base))
        file = (folder / _LOCK).open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if (folder / _LOCK).exists():  # else another process took it for a dead one's before it was held
            atexit.register(_remove, folder, os.getpid(), file)
            return folder


def _remove(folder: Path, process: int, *_held: object) -> None:
    if os.getpid() == process:  # not in a copy of it
        shutil.rmtree(folder, ignore_errors=True)


def start(lifeline: Connection, temporary: str) -> None:
    """Prepare a process of `runner.Processes`: once for the whole run.

    Args: a pipe whose other end the parent holds (its end is the end of this process), the run's temporary folder.
    """
    import torch
    from nbgrader.converters import Autograde  # noqa: F401 - three seconds, before the first submission

    torch.set_num_threads(1)  # judges compute beside as many others as there are cores
    tempfile.tempdir = temporary
    signal.signal(signal.SIGTERM, _stop)
    # A process that ends by itself is not to be ended once more, in the midst of its clearing up.
    multiprocessing.util.Finalize(None, signal.signal, (signal.SIGTERM, signal.SIG_IGN), exitpriority=100)
    # Ctrl+C reaches every process of a terminal; the parent decides. No SIG_IGN: kernels would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def ready() -> None:
    """Mark this process as started; the first thing that it is given to do."""
    _started.set()


def _end_with(lifeline: Connection) -> None:
    """End this process when the parent lets go of the pipe, or is gone: kernels first, by force after a while."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(*_: object) -> None:
    """Interrupt the submission that runs, once; without one, end. What starts is left to start: it is asked again."""
    if not _started.is_set():
        return
    if not _one_at_a_time.locked():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is to be done at the end is done
        raise SystemExit
    if not _interrupted.is_set():
        _interrupted.set()
        raise KeyboardInterrupt
