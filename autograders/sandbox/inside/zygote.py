"""The warm parent: imports once inside the sandbox, then forks a kernel for each notebook. Imports nothing of ours.

`python zygote.py SETTINGS`, the settings as JSON (see `warm.py`). A forked process cannot enter bubblewrap any more, so
each gets walls of its own here: its own processes, files, network and System V objects, of which neither this process
nor another notebook's is a part. Two processes for each: the first one of its process namespace, which sets the walls
up, gives up every right and only waits, and the kernel itself.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

import inside  # type: ignore[import-not-found]  # beside this file where it runs
import namespaces  # type: ignore[import-not-found]
import syscall_filter  # type: ignore[import-not-found]

_SUBREAPER = 36
_MOST_SOCKETS = 16  # an answer's and a kernel's five
_libc = ctypes.CDLL(None, use_errno=True)


def fork_kernel(settings: dict[str, Any], answer: socket.socket, sockets: list[int], control: socket.socket) -> None:
    """Fork what runs one notebook. Returns at once in the warm parent; a failure is reported over `answer`.

    `sockets` are those of the kernel, on which the grader listens already, in the order of `settings["ports"]`.
    """
    # The process in between exists because a namespace of processes begins with the next child.
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return
    try:
        control.detach()
        close_all_but(answer.fileno(), *sockets)
        user = os.getuid()
        namespaces.unshare(settings["user"])
        if os.fork():
            os._exit(0)
        namespaces.build_walls(settings)
        namespaces.raise_loopback()
        if settings["user"]:
            inside.become(settings["user"])
        else:
            namespaces.leave_user_namespace(user)
        namespaces.give_up_rights()
        inside.limit(settings)
        syscall_filter.refuse_calls(settings["uncounted"])
        os.chdir("/tmp")
        answer.send(b"ready")
        if answer.recv(100) != b"go":  # the grader has noted which process this is
            os._exit(1)
        kernel = os.fork()
        if kernel:
            answer.close()
            close_all_but()
            _wait_for(kernel)
        os.setsid()
        if settings["trial"]:
            answer.send(json.dumps(namespaces.look_around()).encode())
            os._exit(0)
        answer.close()
        refresh_randomness()
        for name in ("inside", "namespaces", "syscall_filter"):
            sys.modules.pop(name, None)
        sys.argv[1:] = []
        settings["sockets"] = dict(zip(settings["ports"], sockets, strict=True))
        inside.run_kernel(settings, settings["arguments"])
    # Whatever happens, this copy must not return into the warm parent's loop.
    except BaseException as error:
        try:
            answer.send(f"{type(error).__name__}: {error}".encode()[:1000])
        except OSError:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def close_all_but(*kept: int) -> None:
    """Close every descriptor but the three standard ones and these."""
    next_descriptor = 3
    for descriptor in sorted(kept):
        os.closerange(next_descriptor, descriptor)
        next_descriptor = descriptor + 1
    os.closerange(next_descriptor, 10_000)


def _wait_for(kernel: int) -> None:
    """Act as the first process of a namespace: reap every process that ends, and end with the kernel."""
    inside.close_standard_streams()
    # The system keeps from it every signal that it does not handle; Python handles this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        try:
            if os.wait()[0] == kernel:
                os._exit(0)
        except ChildProcessError:
            os._exit(0)


def refresh_randomness() -> None:
    """Draw again what Python drew from the system's randomness when it started: no two kernels may share it."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.current_process().authkey = os.urandom(32)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # Python's own `random` does this by itself


def serve(control: socket.socket, patience: float) -> None:
    """Fork a kernel for every request, until the grader is gone or has wanted nothing for `patience` seconds."""
    while True:
        busy = _children_left()
        if not select.select([control], [], [], patience)[0]:
            if busy and _children_left():
                continue
            return
        text, ancillary, _, _ = control.recvmsg(100_000, socket.CMSG_SPACE(4 * _MOST_SOCKETS))
        if not text:
            return
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptor, *sockets = array.array("i", data[: len(data) - len(data) % 4])
                with socket.socket(fileno=descriptor) as answer:
                    fork_kernel(json.loads(text), answer, sockets, control)
                for listener in sockets:
                    os.close(listener)


def _children_left() -> bool:
    """Whether a kernel still runs; reaps those that do not."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def main() -> None:
    """Import, say how many threads that has left, and serve."""
    settings = json.loads(sys.argv[1])
    inside.forget_own_folder()
    with socket.socket(fileno=settings["control"]) as control:
        for module in settings["preload"]:
            importlib.import_module(module)
        # The process in between ends at once; what it has started then becomes this one's child, which can wait for it.
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        # What is here now stays as it is in every kernel: it need not be looked through, nor copied.
        gc.collect()
        gc.freeze()
        control.send(json.dumps({"threads": len(namespaces.entries("/proc/self/task"))}).encode())
        serve(control, settings["patience"])


if __name__ == "__main__":
    main()
