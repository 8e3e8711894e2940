"""The grader's end of the warm parent (`zygote.py`): starts it, asks it for kernels, and ends it with the run."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import multiprocessing.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...imports import imported_modules
from ...notebooks import ROOT
from ...private_sockets import listening
from ...writer import RUN_VARIABLE, at_end
from ..bubblewrap import packages, variables, walls
from ..control_groups import ControlGroup
from ..installation import copy_font_lists
from ..jail import PRELOADED, Place, environment, kernel_settings, why_no_walls
from ..limits import FILES, PRIVATE_FOLDERS, Limits
from ..processes import family
from .warm_kernel import FORKS_WITHIN, ForkError, WarmKernel, receive, request_fork

# What a kernel's start and a student's first cell would import besides.
IPYTHON = ("ipykernel.kernelapp", "ipykernel.ipkernel", "IPython.core.completer", "matplotlib_inline.backend_inline")
_RIGHTS = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")
_PATIENCE = 600.0  # seconds without a request until a warm parent ends by itself
_STARTS_WITHIN = 300.0
_COLD = "LECTURE_COLD_KERNELS"


class WarmParent:
    """One warm parent: its process, the folder that it shares with the grader, and how to ask it."""

    def __init__(self, course_root: Path, limits: Limits, preload: Sequence[str]) -> None:
        """Start it and try one fork. Raises ForkError with the reason when that is not as it should be."""
        # Short names: the path of a socket below it has 107 bytes at most.
        self._folder = Path(tempfile.mkdtemp(prefix="w")).resolve()
        self._lock, self._restarting = threading.Lock(), threading.Lock()
        self.lobby = self._folder / "l"
        self.lobby.mkdir()
        self._limits, self._course_root, self._preload = limits, course_root, list(preload)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end, (self._folder / "said").open("wb") as log:
            self.process = subprocess.Popen(
                self._command(child_end.fileno()),
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._check_start()
        self._check_fork()

    def _command(self, control: int) -> list[str]:
        place = Place(self._folder, walls=True, course_root=self._course_root)
        copy_font_lists(place.fonts)
        folders = [f"/lecture/{name}" for name in ("inputs", "files", "kernel")]
        settings = {"control": control, "preload": self._preload, "patience": _PATIENCE}
        return [
            *walls(self._limits, (self._course_root, ROOT), _RIGHTS),
            *packages(),
            *("--ro-bind", str(place.fonts), "/lecture/fonts", "--ro-bind", str(self.lobby), "/lecture/lobby"),
            *(word for folder in folders for word in ("--perms", "0755", "--dir", folder)),
            *variables(environment(place)),
            *("--remount-ro", "/", "--", sys.executable, "/lecture/zygote.py", json.dumps(settings)),
        ]

    def _check_start(self) -> None:
        message = receive(self._control, _STARTS_WITHIN)
        if not message:
            raise ForkError(self._last_words() or "it did not start")
        threads = json.loads(message)["threads"]
        if threads != 1:
            raise ForkError(f"its imports have started {threads - 1} threads, and what they hold would be lost")

    def _check_fork(self) -> None:
        """Fork a trial, which says what it sees; a kernel must see no more than that."""
        with self.place() as folder:
            place = Place(folder, walls=True, course_root=self._course_root)
            for path in (place.inputs, place.files, place.sockets):
                path.mkdir()
            (place.inputs / "trial").touch()
            if place.user:
                shutil.chown(place.sockets, place.user, place.user)
            settings = {**kernel_settings(place, self._limits), "trial": True}
            with self._request_fork(settings, folder) as (answer, kernel):
                message = receive(answer, FORKS_WITHIN)
                kernel.wait(FORKS_WITHIN)
            expected = {
                "processes": [1, 2],
                "lobby": [],
                "names": {"inputs": ["trial"], "files": [], "kernel": []},
                "writable": [],
                "files": dict.fromkeys(PRIVATE_FOLDERS, FILES),
                "user": place.user or os.getuid(),
                "descriptors": 4,
                "threads": 1,
            }
        try:
            view = json.loads(message)
        except ValueError:
            reason = message.decode("utf-8", "replace") or self._last_words()
            raise ForkError(reason or "a fork ended at once") from None
        wrong = [f"{name}: {view.get(name)}" for name, value in expected.items() if view.get(name) != value]
        if wrong:
            raise ForkError(f"a forked kernel sees what it should not ({'; '.join(wrong)[:200]})")

    @contextlib.contextmanager
    def place(self) -> Any:
        """A folder for one submission, in the only one that the warm parent shares with the grader."""
        folder = Path(tempfile.mkdtemp(prefix="", dir=self.lobby))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def fork(
        self, place: Place, limits: Limits, arguments: Sequence[str], group: ControlGroup | None = None
    ) -> WarmKernel:
        """A kernel for what lies in `place`, which `place()` has made. Raises ForkError with the reason.

        A parent that has ended meanwhile is started again, once.
        """
        settings = {**kernel_settings(place, limits), "preload": [], "arguments": list(arguments), "trial": False}
        with listening(place.sockets) as sockets:
            try:
                with self._request_fork(settings, place.folder, sockets, group) as (_, kernel):
                    if self.lives():
                        return kernel
                kernel.kill()  # a parent that was being killed has forked it, and takes it along
            except ForkError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)
                if self.lives():
                    raise
            with self._restarting:
                if not self.lives():
                    self._control.close()
                    self._start()
            with self._request_fork(settings, place.folder, sockets, group) as (_, kernel):
                return kernel

    @contextlib.contextmanager
    def _request_fork(
        self,
        settings: dict[str, Any],
        folder: Path,
        sockets: Mapping[str, int] | None = None,
        group: ControlGroup | None = None,
    ) -> Iterator[tuple[socket.socket, WarmKernel]]:
        """Ask for a fork. Gives the connection to it, and the process."""
        try:
            settings = {**settings, "name": folder.name}
            with request_fork(self._control, self._lock, settings, sockets or {}, group) as connection_and_kernel:
                yield connection_and_kernel
        except ForkError as error:
            raise ForkError(str(error) or self._last_words() or "the warm parent has ended") from None

    def lives(self) -> bool:
        """Whether it can be asked."""
        return self.process.poll() is None

    def close(self) -> None:
        """End it and its kernels, and remove their folders."""
        self._control.close()
        if hasattr(self, "process"):
            # Halted first: while it starts, bubblewrap has children that do not yet end with it.
            self.process.send_signal(signal.SIGSTOP)
            for process in list(family(self.process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_words(self) -> str:
        text = (self._folder / "said").read_text("utf-8", "replace").strip()
        return text.splitlines()[-1][:300] if text else ""


_parents: dict[tuple[Any, ...], WarmParent] = {}
_reasons: dict[tuple[Any, ...], str] = {}
_starting = threading.Lock()


def warm_parent(course_root: Path, limits: Limits) -> WarmParent | None:
    """The warm parent of this process and run, started again when it has ended; None where kernels cannot be forked."""
    if os.environ.get(_COLD) == "1" or why_no_walls() is not None:
        return None
    # A process that was forked from a grader has its variables, and none of its children.
    run = (os.getpid(), os.environ.get(RUN_VARIABLE))
    key = (*run, str(course_root), limits.disk_mb)
    with _starting:
        parent = _parents.get(key)
        if parent is not None and parent.lives():
            return parent
        # By process, not by course: what this machine cannot do for one it cannot do for another.
        if key[:1] in _reasons:
            return None
        # Parents of an earlier run or course would only hold memory.
        for old_key in [old_key for old_key in _parents if old_key[0] == run[0]]:
            _parents.pop(old_key).close()
        try:
            _parents[key] = _made(course_root, limits)
        except ForkError as error:
            _reasons[key[:1]] = str(error)
            print(f"kernels are started one by one: {error}", file=sys.stderr)
            return None
        # A process of a pool ends without `atexit`, and forgets what was registered before it was forked.
        multiprocessing.util.Finalize(None, end_warm_parents, exitpriority=0)
        return _parents[key]


def _made(course_root: Path, limits: Limits) -> WarmParent:
    modules = (*IPYTHON, *PRELOADED)
    try:
        return WarmParent(course_root, limits, (*modules, *imported_modules()))
    except ForkError:
        # A package of the notebooks' may be missing here or start threads: each kernel then imports them by itself.
        return WarmParent(course_root, limits, modules)


def end_warm_parents() -> None:
    """End what this process has started; the next submission starts another one."""
    with _starting:
        for key in [key for key in _parents if key[0] == os.getpid()]:
            _parents.pop(key).close()


at_end(end_warm_parents)
atexit.register(end_warm_parents)


@functools.cache
def why_cold() -> str | None:
    """Why kernels cannot be forked from a warm parent here, in a line; None when they can. Tries it."""
    missing = why_no_walls()
    if missing is not None:
        return missing
    try:
        WarmParent(Path("/nonexistent"), Limits(), ()).close()
    except ForkError as error:
        return str(error)
    return None
