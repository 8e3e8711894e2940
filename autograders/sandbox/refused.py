"""System calls that a kernel is refused, for good: Linux's seccomp filters. Imports nothing of ours.

Namespaces do not cover all that two kernels could share. The keys of the grader's login session go to every process
that it starts, and sockets to a virtual machine's host (AF_VSOCK) belong to no network namespace. Memory in files
without a name, and in file systems mounted in a user namespace of a student's own, belongs to no process and so would
escape the limit. Rings of calls (io_uring) would go round the filter.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_CALL, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # where the filter finds them
_NEW_USER = 0x10000000
_SET_FILTER, _FILTER = 22, 2
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, getattr(socket, "AF_INET6", 10), getattr(socket, "AF_NETLINK", 16))
_NAMES = (
    *("socket", "socketpair", "unshare", "clone"),  # refused or not, depending on the first argument
    # The C library asks for clone3 first, whose flags a filter cannot see, and then for clone.
    *("add_key", "request_key", "keyctl", "shmget", "memfd_create", "memfd_secret", "io_uring_setup", "clone3"),
)
# The number of the machine, then those of the calls.
_NUMBERS = {
    "x86_64": (0xC000003E, (41, 53, 272, 56, 248, 249, 250, 29, 319, 447, 425, 435)),
    "aarch64": (0xC00000B7, (198, 199, 97, 220, 217, 218, 219, 194, 279, 447, 425, 435)),
}
_OTHER_CALLS = 0x40000000  # x86_64 has a second set of numbers, from here on


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """An instruction; for a comparison, how many to skip `then` and `otherwise`."""
    return struct.pack("HBBI", code, then, otherwise, value)


def _refuse(reason: int) -> bytes:
    return _step(_RETURN, _ERROR | reason)


def make_filter(machine: str) -> bytes:
    """The filter's program for a kind of machine; nothing for one that is not known."""
    if machine not in _NUMBERS:
        return b""
    number, numbers = _NUMBERS[machine]
    calls = dict(zip(_NAMES, numbers, strict=True))
    program = [_step(_LOAD, _MACHINE), _step(_EQUAL, number, 1, 0), _refuse(errno.ENOSYS), _step(_LOAD, _CALL)]
    program += [_step(_AT_LEAST, _OTHER_CALLS, 0, 1), _refuse(errno.ENOSYS)]
    for name in _NAMES[4:]:
        program += [_step(_EQUAL, calls[name], 0, 1), _refuse(errno.ENOSYS)]
    for name in ("socket", "socketpair"):
        known = [_step(_EQUAL, family, len(_FAMILIES) - place, 0) for place, family in enumerate(_FAMILIES)]
        body = [_step(_LOAD, _FIRST_ARGUMENT), *known, _refuse(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)]
        program += [_step(_EQUAL, calls[name], 0, len(body)), *body]
    for name in ("unshare", "clone"):
        body = [_step(_LOAD, _FIRST_ARGUMENT), _step(_ANY_BIT, _NEW_USER, 0, 1), _refuse(errno.EPERM)]
        body.append(_step(_RETURN, _ALLOW))
        program += [_step(_EQUAL, calls[name], 0, len(body)), *body]
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def refuse_calls() -> None:
    """Refuse them to this process and to all that it starts. Needs that no new rights can be gained."""
    program = make_filter(platform.machine())
    if not program:
        return
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_FILTER, _FILTER, header, 0, 0) == 0:
        return
    number = ctypes.get_errno()
    # A system that was built without filters answers so; the walls stand all the same.
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, "the filter of system calls was not taken")
