"""The walls of one forked kernel, built inside the sandbox with Linux's own calls. Imports nothing of ours."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Any

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = (
    *(1, 2, 4, 8, 32, 4096, 1 << 14, 1 << 18),
)
_PLAIN = _NO_SETUID | _NO_DEVICES
_GET_NO_NEW_RIGHTS = 39
_SET_INTERFACE_FLAGS, _UP_AND_RUNNING = 0x8914, 0x1 | 0x40
_LOBBY = "/lecture/lobby"
_NAMES = ("inputs", "files", "kernel")
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> None:
    """Raise OSError with the reason when a call of the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """The system call of this name. Raises OSError."""
    names = [None if name is None else name.encode() for name in (source, target, kind)]
    _checked(_libc.mount(*names, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def _unshare(flags: int) -> None:
    """The system call of this name. Raises OSError."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def _map_user(inner: int, outer_user: int, outer_group: int) -> None:
    """Give the one user of a new user namespace the number `inner` (a user's and a group's)."""
    # The system lets an ordinary user map a group only after giving up the right to change groups.
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{inner} {outer_user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{inner} {outer_group} 1", "ascii")


def _bind(source: str, target: str) -> None:
    """Show what is at `source` at `target` too, to be read. What the source's mount forbids stays forbidden."""
    _mount(source, target, None, _BIND)
    # Linux ignores other flags in the first call of a bind mount; they need a second one.
    restrictions = os.statvfs(target).f_flag & (_NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    _mount(None, target, None, _BIND | _REMOUNT | restrictions | _PLAIN | _READ_ONLY)


def unshare(user: int) -> None:
    """Let what this process forks next have namespaces of its own.

    Root makes them by a right that it then gives up (`user` is whom it becomes). An ordinary user (0) needs to be root
    of a user namespace to mount, and later leaves it for another one, in which it has no right over the mounts.
    """
    own_user, own_group = os.getuid(), os.getgid()
    _unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK | (0 if user else _NEW_USER))
    if not user:
        _map_user(0, own_user, own_group)


def leave_user_namespace(user: int) -> None:
    """Be `user` again, in a user namespace that owns nothing."""
    _unshare(_NEW_USER)
    _map_user(user, 0, 0)


def build_walls(settings: dict[str, Any]) -> None:
    """Mount what is this notebook's own, and cover what is not."""
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    place = f"{_LOBBY}/{settings['name']}"
    for name in _NAMES:
        _bind(f"{place}/{name}", f"/lecture/{name}")
    mount_private_folders(settings)
    _mount("tmpfs", _LOBBY, "tmpfs", _PLAIN | _READ_ONLY | _NO_PROGRAMS, "size=4096,nr_inodes=4,mode=0755")
    _mount("devpts", "/dev/pts", "devpts", _NO_SETUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620")
    _mount("proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)


def mount_private_folders(settings: dict[str, Any]) -> None:
    """New file systems of limited size, with a limited number of files, where a notebook may write."""
    # Python's packages may be below /tmp: they are shown again in the new one.
    descriptors = {path: os.open(path, os.O_PATH) for path in settings["below_tmp"]}
    for folder in settings["private_folders"]:
        limits = f"size={settings['file_bytes']},nr_inodes={settings['files_written']},mode=1777"
        _mount("tmpfs", folder, "tmpfs", _PLAIN, limits)
    for path, descriptor in descriptors.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            Path(path).mkdir()
        else:
            Path(path).touch()
        _bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)


def limit_private_folders(settings: dict[str, Any]) -> None:
    """The same in a kernel that was started alone, before it gives up root's identity and rights (`user` is whom
    it becomes). An ordinary user (0) needs a user namespace for it; where there is none, the grader's watch counts.
    """
    user, group = os.getuid(), os.getgid()
    if not settings["user"]:
        try:
            _unshare(_NEW_USER | _NEW_MOUNTS)
        except OSError:
            return
        _map_user(0, user, group)
    mount_private_folders(settings)
    os.chdir("/tmp")
    if not settings["user"]:
        leave_user_namespace(user)
        give_up_rights()


def raise_loopback() -> None:
    """Bring up the private loopback: processes of one notebook may talk to each other."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh22x", b"lo", _UP_AND_RUNNING)
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, request)


def give_up_rights() -> None:
    """Drop every capability, for good: bubblewrap has set that no program gives any back."""
    if _libc.prctl(_GET_NO_NEW_RIGHTS, 0, 0, 0, 0) != 1:
        raise OSError(errno.EPERM, "new rights can be gained in here")
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)  # version 3 of the interface, this process
    _checked(_libc.capset(header, none), "capset")
    if [line.split()[1].strip("0") for line in _status() if line.startswith(("CapEff", "CapPrm", "CapInh"))] != [
        ""
    ] * 3:
        raise OSError(errno.EPERM, "capabilities are left")


def _status() -> list[str]:
    return Path("/proc/self/status").read_text("ascii").splitlines()


def entries(folder: str) -> list[str]:
    """The names in a folder."""
    return [entry.name for entry in Path(folder).iterdir()]


def look_around() -> dict[str, Any]:
    """What a forked process sees: `warm.py` knows what it should be."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=2).close()
    for folder in ("/tmp", "/dev/shm"):
        Path(folder, "trial").write_text("x", "ascii")
    for descriptor in os.openpty():
        os.close(descriptor)
    return {
        "processes": sorted(int(name) for name in entries("/proc") if name.isdigit()),
        "lobby": entries(_LOBBY),
        "names": {name: sorted(entries(f"/lecture/{name}")) for name in _NAMES},
        "writable": [name for name in _NAMES if os.access(f"/lecture/{name}", os.W_OK)],
        "files": {folder: os.statvfs(folder).f_files for folder in ("/tmp", "/dev/shm")},
        "user": os.getuid(),
        "descriptors": len(entries("/proc/self/fd")) - 1,  # one is the listing's own
        "threads": len(entries("/proc/self/task")),
    }
