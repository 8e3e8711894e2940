"""How a kernel is talked to: sockets in a private folder, where no other user or notebook can join in."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONNECTION = "connection.json"
"""The file in that folder by which a kernel learns its sockets and their key."""
_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def use_private_sockets(kernel_manager: Any, folder: Path) -> None:
    """Let a kernel that is not started yet use Unix sockets in `folder` in place of open TCP ports.

    The path is absolute: kernel and client have different working directories, and a relative one hangs.
    """
    kernel_manager.transport = "ipc"
    kernel_manager.ip = str(folder.resolve() / "k")  # short: a socket's path has 107 bytes at most


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[dict[str, int]]:
    """The kernel's sockets by port, made and named by the grader, for a kernel to take over: their descriptors.

    So the kernel needs no folder on the grader's disk to make them in. They are closed here when it has them.
    """
    connection = json.loads((folder / CONNECTION).read_text("utf-8"))
    with contextlib.ExitStack() as stack:
        sockets = {str(connection[name]): stack.enter_context(socket.socket(socket.AF_UNIX)) for name in _PORTS}
        for port, listener in sockets.items():
            listener.bind(f"{connection['ip']}-{port}")
            listener.listen()
        yield {port: listener.fileno() for port, listener in sockets.items()}
