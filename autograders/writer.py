"""One writer at a time: who changes a course's gradebook holds a lock, and sweeps up after one that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from lecture_lib._common.system import is_running

from .course import Course, CourseError
from .files import remove_half_written

RUN_VARIABLE = "LECTURE_RUN"
"""Every process that a grading run starts inherits its id here, so that those of a killed run can be found."""

PATIENCE = 5.0  # seconds until a lock whose holder is dead counts as held by somebody else

_endings: list[Callable[[], None]] = []


def at_end(ending: Callable[[], None]) -> None:
    """Have `ending` called whenever a run ends in this process, before its temporary folders go."""
    _endings.append(ending)


@contextlib.contextmanager
def only_writer(course: Course, command: str) -> Iterator[None]:
    """Hold the course for writing; temporary folders made meanwhile lie in one folder that goes with the run.

    The operating system gives the lock back when its holder ends, however it ends. Whoever takes it next ends the
    processes and removes the folders and half-written files that a killed holder left behind. Raises CourseError
    that names the holder when somebody else is writing.
    """
    if not course.root.is_dir():
        raise CourseError(f"{course.root} does not exist: run `autograde release` first.")
    with (course.root / ".writer").open("a+", encoding="utf-8") as file:
        _take(file, course)
        _sweep(course, _holder(file))
        # Named before it is made: a run killed in between leaves nothing that its successor does not know of.
        scratch = short(Path(tempfile.gettempdir()), 27) / f"autograde-{uuid.uuid4().hex[:12]}"
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "scratch": str(scratch)}
        holder["course"] = str(course.root.resolve())
        _enter(file, {**holder, "run": uuid.uuid4().hex, "since": time.strftime("%Y-%m-%d %H:%M:%S")})
        scratch.mkdir(mode=0o700)
        previous = tempfile.tempdir, os.environ.get(RUN_VARIABLE)
        tempfile.tempdir, os.environ[RUN_VARIABLE] = str(scratch), _holder(file)["run"]
        try:
            yield
        finally:
            for ending in _endings:
                ending()
            tempfile.tempdir = previous[0]
            os.environ.pop(RUN_VARIABLE)
            if previous[1] is not None:
                os.environ[RUN_VARIABLE] = previous[1]
            _sweep(course, {**_holder(file), "run": ""})
            _enter(file, {})


def _take(file: TextIO, course: Course) -> None:
    """Take the lock, or raise CourseError at once when its holder lives; a dead one's children may keep it a moment.

    A process that was about to start another when it was killed leaves a copy of itself, which has the lock too until
    it has become that other program.
    """
    patience = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            if _lives(holder) or time.monotonic() > patience:
                raise CourseError(_busy(course, holder)) from None
            time.sleep(0.02)
        else:
            return


def _lives(holder: dict[str, Any]) -> bool:
    """Whether the process that noted itself still runs; one on another host cannot be asked and counts as alive."""
    # Process numbers mean nothing across machines that share the folder.
    return bool(holder) and (holder.get("host") != socket.gethostname() or is_running(holder["pid"]))


def short(folder: Path, most: int = 50) -> Path:
    """The folder itself, or /tmp: the path of a kernel's socket has 107 bytes at most, and a longer one only hangs."""
    return folder if len(os.fsencode(folder)) <= most else Path("/tmp")


def _enter(file: TextIO, holder: dict[str, Any]) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps(holder))
    file.flush()


def _holder(file: TextIO) -> dict[str, Any]:
    file.seek(0)
    try:
        holder = json.loads(file.read())
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _busy(course: Course, holder: dict[str, Any]) -> str:
    writer = "another command"
    if holder:
        writer = (
            f"`autograde {holder['command']}` (process {holder['pid']} on {holder['host']}, since {holder['since']})"
        )
    return (
        f"{course.root} is being written by {writer}, and a gradebook has one writer at a time. Wait until it ends, or "
        "stop it: what it finished is kept, and the same command goes on from there. Nothing was written."
    )


def _sweep(course: Course, holder: dict[str, Any]) -> None:
    """Remove what belongs to one run: its processes, its temporary folder, its half-written files."""
    # A copy of the folder has a copy of the note, whose run may be alive and well beside the original.
    if (holder.get("host"), holder.get("course")) == (socket.gethostname(), str(course.root.resolve())):
        if holder.get("run"):
            _end_processes_of(holder["run"])
        shutil.rmtree(holder["scratch"], ignore_errors=True)
    shutil.rmtree(course.staged, ignore_errors=True)
    remove_half_written(course.root)


def _end_processes_of(run: str) -> None:
    """Kill what carries the id of a dead run in its environment: kernels, and what they started."""
    mark = f"{RUN_VARIABLE}={run}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        # Other users' processes cannot be read, and others end while we look.
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)
