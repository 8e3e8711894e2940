"""How a kernel is talked to: sockets in a private folder, where no other user or notebook can join in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONNECTION = "connection.json"
"""The file in that folder by which a kernel learns its sockets and their key."""


def use_private_sockets(kernel_manager: Any, folder: Path) -> None:
    """Let a kernel that is not started yet use Unix sockets in `folder` in place of open TCP ports.

    The path is absolute: kernel and client have different working directories, and a relative one hangs.
    """
    kernel_manager.transport = "ipc"
    kernel_manager.ip = str(folder.resolve() / "k")  # short: a socket's path has 107 bytes at most
