"""A kernel manager whose kernel is forked from a warm parent or started by a command, reached over Unix sockets."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from ..private_sockets import CONNECTION, listening, use_private_sockets
from .control_groups import ControlGroup
from .jail import Place, command, environment
from .limits import Limits
from .processes import family

MOST_MESSAGE_BYTES = 64_000_000
_MOST_WAITING = 200


class JailedKernelManager(AsyncKernelManager):
    """Starts one kernel in a place. Students' own kernel specifications play no part."""

    place: Place

    @property
    def kernel_spec(self) -> KernelSpec:
        """A specification that exists nowhere else: its provisioner starts the sandbox."""
        return KernelSpec(argv=["(started by the grader)"], display_name="Python 3", language="python")

    def write_connection_file(self, **kwargs: Any) -> None:
        """Write the file by which the kernel learns its sockets, readable for the kernel's user."""
        super().write_connection_file(**kwargs)
        if self.place.user:
            os.chown(self.connection_file, self.place.user, self.place.user)


class JailedProvisioner(LocalProvisioner):
    """Has the grader start a kernel where jupyter_client would start a program; what follows is the same."""

    start: Callable[[], Any]

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel; the command is not needed."""
        self.process = self.start()
        self.pid = self.process.pid
        return self.connection_info


def make_manager(place: Place, start: Callable[[], Any], **kwargs: Any) -> JailedKernelManager:
    """A manager for one kernel in `place`: the process that `start` returns when its connection file is written."""
    manager = JailedKernelManager(kernel_name="python3", **kwargs)
    manager.place = place
    manager.provisioner = JailedProvisioner(parent=manager, kernel_id="", kernel_spec=manager.kernel_spec)
    manager.provisioner.start = start
    use_private_sockets(manager, place.sockets)
    manager.connection_file = str(place.sockets / CONNECTION)
    # A message that the kernel's sockets bring is the student's: none may fill the grader's memory.
    manager.context.setsockopt(zmq.MAXMSGSIZE, MOST_MESSAGE_BYTES)
    manager.context.setsockopt(zmq.RCVHWM, _MOST_WAITING)
    return manager


def start_alone(
    place: Place, limits: Limits, arguments: Sequence[str], output: int, group: ControlGroup | None
) -> subprocess.Popen[bytes]:
    """Start a kernel for what lies in `place` by a command. Its output goes to the descriptor `output`."""
    with listening(place.sockets) as sockets:
        process = subprocess.Popen(
            [*command(place, limits, sockets), *arguments],
            env=environment(place),
            cwd=place.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[*sockets.values()],
            start_new_session=True,
        )
    if group is not None:
        # Twice: bubblewrap may just have started the first process inside. Nothing of the student's runs yet.
        for _ in range(2):
            for child in list(family(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    group.add(child)
    return process


def started_process(manager: Any) -> int:
    """The number of the process that a manager has started: bubblewrap's, or the kernel's own."""
    number: int = manager.provisioner.process.pid
    return number
