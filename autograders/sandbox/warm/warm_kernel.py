"""A forked kernel as the grader sees it: a process that is not its child."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from ..control_groups import ControlGroup

FORKS_WITHIN = 60.0


class ForkError(RuntimeError):
    """The warm parent did not fork a kernel; the message has the reason, or nothing where it has just ended."""


class WarmKernel:
    """A forked kernel as jupyter_client sees a process: the first one of its namespace, with which all others end."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)  # a number can be another process's one day, this cannot
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """0 when it has ended, None while it runs."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended. Raises TimeoutError."""
        if self.returncode is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise TimeoutError
            self._ended()
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """End it, and with it everything in its namespace."""
        self.send_signal(signal.SIGKILL)

    terminate = kill

    def _ended(self) -> None:
        self.returncode = 0
        os.close(self._handle)


def receive(connection: socket.socket, seconds: float) -> bytes:
    """The next message; nothing when there is none in time or the other end is closed."""
    connection.settimeout(seconds)
    try:
        return connection.recv(100_000)
    except OSError:
        return b""


@contextlib.contextmanager
def request_fork(
    control: socket.socket,
    lock: threading.Lock,
    settings: Mapping[str, Any],
    sockets: Mapping[str, int],
    group: ControlGroup | None,
) -> Iterator[tuple[socket.socket, WarmKernel]]:
    """Ask the warm parent behind `control` for a fork that takes over `sockets` and starts in `group`.

    Gives the connection to it and the process, whose number only the system can say. Raises ForkError.
    """
    text = json.dumps({**settings, "ports": list(sockets)}).encode()
    own_end, parent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own_end:
        # The system then adds the sender's process number as it is seen here; in its own namespace it is 1.
        own_end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with parent_end, lock:
            descriptors = array.array("i", [parent_end.fileno(), *sockets.values()])
            try:
                control.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            except OSError as error:
                raise ForkError(f"the warm parent has ended ({error})") from None
        own_end.settimeout(FORKS_WITHIN)
        try:
            message, ancillary, _, _ = own_end.recvmsg(2000, socket.CMSG_SPACE(12))
            if message != b"ready":
                raise ForkError(message.decode("utf-8", "replace"))
            ((_, _, credentials),) = ancillary
            kernel = WarmKernel(struct.unpack("3i", credentials)[0])
            if group is not None:
                group.add(kernel.pid)  # with everything that it starts
            own_end.send(b"go")
        except OSError as error:
            raise ForkError(f"the warm parent did not answer ({error})") from None
        yield own_end, kernel
