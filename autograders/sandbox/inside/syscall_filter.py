"""System calls that a kernel is refused, for good: Linux's seccomp filters. Imports nothing of ours.

Namespaces do not cover all that two kernels could share. The keys of the grader's login session go to every process
that it starts, and sockets to a virtual machine's host (AF_VSOCK) belong to no network namespace. Memory in files
without a name, in file systems mounted in a user namespace of a student's own, and in the semaphores and queues of
System V, belongs to no process and so would escape the limit. Rings of calls (io_uring) would go round the filter.

Two more things escape where no control group counts them (`control_groups.py`). Shared memory without a file need not
be in any process's map: it is refused. A child whose parent ignores its end takes its computing time with it: there,
how a process takes the end of a child (SIGCHLD) stays as it is, and a call that would change it does nothing.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Sequence

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_CALL, _MACHINE, _FIRST_ARGUMENT, _SIZE = 0, 4, 16, 8  # where the filter finds them, and how long an argument is
_NEW_USER = 0x10000000
_SHARED, _WITHOUT_FILE = 0x01, 0x20
_CHILD_ENDED = 17  # SIGCHLD, on both machines
_SET_FILTER, _FILTER = 22, 2
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, getattr(socket, "AF_INET6", 10), getattr(socket, "AF_NETLINK", 16))
_DEPENDING = ("socket", "socketpair", "unshare", "clone", "mmap", "rt_sigaction")  # refused or not, by an argument
_NAMES = (
    *_DEPENDING,
    # The C library asks for clone3 first, whose flags a filter cannot see, and then for clone.
    *("add_key", "request_key", "keyctl", "shmget", "memfd_create", "memfd_secret", "io_uring_setup", "clone3"),
    *("semget", "msgget", "bpf", "perf_event_open"),
)
# The number of the machine, then those of the calls.
_NUMBERS = {
    "x86_64": (0xC000003E, (41, 53, 272, 56, 9, 13, 248, 249, 250, 29, 319, 447, 425, 435, 64, 68, 321, 298)),
    "aarch64": (
        0xC00000B7,
        (198, 199, 97, 220, 222, 134, 217, 218, 219, 194, 279, 447, 425, 435, 190, 186, 280, 241),
    ),
}
_OTHER_CALLS = 0x40000000  # x86_64 has a second set of numbers, from here on


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """An instruction; for a comparison, how many to skip `then` and `otherwise`."""
    return struct.pack("HBBI", code, then, otherwise, value)


def _refuse(reason: int) -> bytes:
    return _step(_RETURN, _ERROR | reason)


def _argument(place: int) -> bytes:
    """Look at the lower half of an argument."""
    return _step(_LOAD, _FIRST_ARGUMENT + _SIZE * place)


def _on_call(number: int, body: list[bytes]) -> list[bytes]:
    """What is looked at in one call; nothing of it in the others."""
    return [_step(_LOAD, _CALL), _step(_EQUAL, number, 0, len(body)), *body]


def _shared_memory_without_a_file(number: int) -> list[bytes]:
    body = [_argument(3), _step(_ANY_BIT, _WITHOUT_FILE, 0, 2), _step(_ANY_BIT, _SHARED, 0, 1), _refuse(errno.ENOMEM)]
    return _on_call(number, body)


def _end_of_a_child(number: int) -> list[bytes]:
    # Without a new handler (both halves of its address are 0) the call only asks.
    body = [_argument(0), _step(_EQUAL, _CHILD_ENDED, 0, 5), _argument(1), _step(_EQUAL, 0, 0, 2)]
    body += [_step(_LOAD, _FIRST_ARGUMENT + _SIZE + 4), _step(_EQUAL, 0, 1, 0), _refuse(0)]
    return _on_call(number, body)


def make_filter(machine: str, uncounted: Sequence[str] = ()) -> bytes:
    """The filter's program for a kind of machine; nothing for one that is not known.

    `uncounted` is what no control group counts: "memory", "time".
    """
    if machine not in _NUMBERS:
        return b""
    number, numbers = _NUMBERS[machine]
    calls = dict(zip(_NAMES, numbers, strict=True))
    program = [_step(_LOAD, _MACHINE), _step(_EQUAL, number, 1, 0), _refuse(errno.ENOSYS), _step(_LOAD, _CALL)]
    program += [_step(_AT_LEAST, _OTHER_CALLS, 0, 1), _refuse(errno.ENOSYS)]
    for name in _NAMES[len(_DEPENDING) :]:
        program += [_step(_EQUAL, calls[name], 0, 1), _refuse(errno.ENOSYS)]
    for name in ("socket", "socketpair"):
        families = [_step(_EQUAL, family, len(_FAMILIES) - place, 0) for place, family in enumerate(_FAMILIES)]
        program += _on_call(calls[name], [_argument(0), *families, _refuse(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)])
    for name in ("unshare", "clone"):
        program += _on_call(calls[name], [_argument(0), _step(_ANY_BIT, _NEW_USER, 0, 1), _refuse(errno.EPERM)])
    if "memory" in uncounted:
        program += _shared_memory_without_a_file(calls["mmap"])
    if "time" in uncounted:
        program += _end_of_a_child(calls["rt_sigaction"])
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def refuse_calls(uncounted: Sequence[str] = ()) -> None:
    """Refuse them to this process and to all that it starts. Needs that no new rights can be gained."""
    program = make_filter(platform.machine(), uncounted)
    if not program:
        return
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_FILTER, _FILTER, header, 0, 0) == 0:
        return
    number = ctypes.get_errno()
    # A system that was built without filters answers so; the walls stand all the same.
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, "the filter of system calls was not taken")
