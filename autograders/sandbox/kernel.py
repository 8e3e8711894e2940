"""A kernel manager whose kernel is forked from a warm parent or started by a command, reached over Unix sockets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from traitlets import List, Unicode

from .jail import Place
from .sockets import CONNECTION, use_private_sockets

MOST_MESSAGE_BYTES = 64_000_000
_MOST_WAITING = 200


class JailedKernelManager(AsyncKernelManager):
    """Starts one kernel in a place. Students' own kernel specifications play no part."""

    jailed_command = List(Unicode())
    place: Place

    @property
    def kernel_spec(self) -> KernelSpec:
        """A specification that exists nowhere else: its provisioner starts the sandbox."""
        return KernelSpec(
            argv=[*self.jailed_command, "-f", "{connection_file}"], display_name="Python 3", language="python"
        )

    def write_connection_file(self, **kwargs: Any) -> None:
        """Write the file by which the kernel learns its sockets, readable for the kernel's user."""
        super().write_connection_file(**kwargs)
        if self.place.user:
            os.chown(self.connection_file, self.place.user, self.place.user)


class ForkedProvisioner(LocalProvisioner):
    """Has a kernel forked where jupyter_client would start a program; what follows is the same."""

    fork: Callable[[], Any]

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork the kernel; the command is not needed."""
        self.process = self.fork()
        self.pid = self.process.pid
        return self.connection_info


def make_manager(
    place: Place, command: list[str], fork: Callable[[], Any] | None = None, **kwargs: Any
) -> JailedKernelManager:
    """A manager for one kernel in `place`: what `fork` returns, or, without it, what the command starts."""
    manager = JailedKernelManager(kernel_name="python3", **kwargs)
    manager.place, manager.jailed_command = place, command
    if fork is not None:
        manager.provisioner = ForkedProvisioner(parent=manager, kernel_id="", kernel_spec=manager.kernel_spec)
        manager.provisioner.fork = fork
    use_private_sockets(manager, place.sockets)
    manager.connection_file = str(place.sockets / CONNECTION)
    # A message that the kernel's sockets bring is the student's: none may fill the grader's memory.
    manager.context.setsockopt(zmq.MAXMSGSIZE, MOST_MESSAGE_BYTES)
    manager.context.setsockopt(zmq.RCVHWM, _MOST_WAITING)
    return manager


def started_process(manager: Any) -> int:
    """The number of the process that a manager has started: bubblewrap's, or the kernel's own."""
    number: int = manager.provisioner.process.pid
    return number
